// SPDX-License-Identifier: Apache-2.0
//! Rules of the engine by tables, and its promises by random events.

mod actor;
mod checker;
mod crashes;
mod detecting;
mod ending;
mod joining;
mod known;
mod merging;
mod peers;
mod places;
mod random;
mod random_step;
mod recordings;
mod reports;
mod requests;
mod rings;
mod room;
mod support;
mod times;
