// SPDX-License-Identifier: Apache-2.0
//! User transactions (AppInsight, OSDI 2012): what the user did, what it caused, and what made them wait.
//!
//! ```no_run
//! use hindsight_causality::transactions::{Paths, Transactions};
//! use hindsight_causality::{Graph, Session};
//!
//! let session = Session::open(&["app.hindsight"])?;
//! let graph = Graph::build(&session)?;
//! let found = Transactions::find(&session, &graph);
//! let paths = Paths::new(&session, &graph, &found);
//! for (id, transaction) in found.iter() {
//!     let path = paths.path(id).expect("each transaction has a path");
//!     println!("{} {} ns", session.string(transaction.what), path.duration_ns());
//!     for (component, ns) in path.shares().parts() {
//!         println!("  {} {ns} ns", component.name());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod awaited;
mod by_kernel;
mod component;
mod exceptions;
mod find;
mod flow;
mod groups;
mod measured;
mod members;
mod model;
mod outliers;
mod own_time;
mod path;
mod patterns;
mod periodic;
mod places;
mod polling;
mod recorded;
mod roots;
mod scope;
mod spread;
mod variance;

pub use component::{Component, Shares};
pub use exceptions::{crashes, group_crashes, Crash, CrashGroup, Frames};
pub use find::Transactions;
pub use groups::{groups, handler, Group, GroupBy};
pub use measured::{measure, Measured, Stage};
pub use model::{Limits, Member, Root, RootKind, Transaction, TransactionId, Update, Via};
pub use outliers::{outliers, Outlier, LEAST_FOR_MEAN, LEAST_FOR_MEDIAN, OUTLIER_DEVIATIONS};
pub use path::{By, CriticalPath, Letter, Paths, Point, Step, StepKind};
pub use patterns::{patterns, sequences, CommonPath, FirstUse, Patterns};
pub use polling::Polling;
pub use recorded::Recorded;
pub use spread::Spread;
pub use variance::{factors, variance, Factor, Variance, LEAST_FOR_VARIANCE, SIGNIFICANT};
