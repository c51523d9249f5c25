// SPDX-License-Identifier: Apache-2.0
//! Writes the Java program of a plan. `lab/causality/random` has the classes that all programs use.

use std::fmt::Write as _;

use super::plan::{Action, Awaiting, LaneKind, Plan, StepId, Terminal, Way};

/// The port of the serving process, for a transaction, is the first of its process.
pub(super) const SERVER: &str = "server";
/// The name of the program's own process.
pub(super) const PROGRAM: &str = "program";

/// The source files of a program, by name.
pub(super) fn sources(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut text = head(plan);
    main(plan, &mut text);
    for step in 0..plan.steps.len() {
        text.push('\n');
        class(plan, step, &mut text);
    }
    let mut files = vec![("Main.java", text)];
    if let Some(step) = served(plan) {
        files.push(("Server.java", head(plan) + &server(plan, step)));
    }
    files
}

/// The step that another process does, if there is one.
pub(super) fn served(plan: &Plan) -> Option<StepId> {
    (0..plan.steps.len()).find(|&step| plan.is_served(step))
}

fn head(plan: &Plan) -> String {
    format!(
        "// SPDX-License-Identifier: Apache-2.0\n// Written by cargo xtask verify causality.\npackage {};\n\n\
         import android.os.Handler;\nimport android.os.HandlerThread;\nimport android.os.Looper;\nimport android.os.Message;\n\n\
         import dev.hindsight.cases.Case;\nimport dev.hindsight.lab.SocketBinder;\nimport dev.hindsight.random.Gate;\n\
         import dev.hindsight.random.Play;\n\n\
         import java.net.InetAddress;\nimport java.net.ServerSocket;\nimport java.util.Timer;\nimport java.util.TimerTask;\n\
         import java.util.concurrent.*;\n\n",
        plan.package
    )
}

/// The class with `main`. Lanes are its fields.
fn main(plan: &Plan, text: &mut String) {
    let mut fields = String::new();
    let mut starts = String::new();
    for lane in &plan.lanes {
        let field = lane.name.replace('-', "_");
        let (kind, value) = match lane.kind {
            LaneKind::Main => ("Handler", "new Handler(Looper.getMainLooper())".to_owned()),
            LaneKind::Looper => {
                let thread = format!("{field}_thread");
                _ = writeln!(
                    starts,
                    "        HandlerThread {thread} = new HandlerThread(\"{}\");\n        {thread}.start();",
                    lane.name
                );
                ("Handler", format!("new Handler({thread}.getLooper())"))
            }
            LaneKind::Pool => (
                "ThreadPoolExecutor",
                format!(
                    "new ThreadPoolExecutor(1, 1, 1, TimeUnit.HOURS, new LinkedBlockingQueue<>(), Play.named(\"{}\"))",
                    lane.name
                ),
            ),
            LaneKind::Scheduled => (
                "ScheduledThreadPoolExecutor",
                format!(
                    "new ScheduledThreadPoolExecutor(1, Play.named(\"{}\"))",
                    lane.name
                ),
            ),
            LaneKind::Timer => ("Timer", format!("new Timer(\"{}\")", lane.name)),
            LaneKind::Consumer => (
                "BlockingQueue<Runnable>",
                format!("Play.consumer(\"{}\")", lane.name),
            ),
            LaneKind::Marked => ("Play.Marked", format!("new Play.Marked(\"{}\")", lane.name)),
            LaneKind::Service | LaneKind::Own => continue,
        };
        _ = writeln!(fields, "    static {kind} {field};");
        _ = writeln!(starts, "        {field} = {value};");
        if matches!(lane.kind, LaneKind::Pool | LaneKind::Scheduled) {
            _ = writeln!(starts, "        {field}.prestartAllCoreThreads();");
        }
    }
    if served(plan).is_some() {
        fields.push_str("    static SocketBinder.Proxy service;\n");
        _ = writeln!(
            starts,
            "        service = new SocketBinder.Proxy(run.port(\"{SERVER}\", 0));"
        );
    }
    let own = (0..plan.steps.len()).filter(|&step| !plan.is_served(step));
    let classes: Vec<String> = own
        .map(|step| format!("\"{}\"", plan.class(step)))
        .collect();
    let _ = write!(
        text,
        "public final class Main {{\n{fields}\n    public static void main(String[] args) throws Exception {{\n\
         \x20       Case run = Case.begin(args);\n        Looper.prepareMainLooper();\n\
         \x20       Play.prepare(run, {});\n{starts}        run.start(\"{}\", () -> {{\n            Play.begin();\n            user();\n            Play.end();\n            run.done();\n        }});\n\
         \x20       run.ready();\n        Looper.loop();\n    }}\n\n    private static void user() throws Exception {{\n\
         \x20       for (int round = 1; round <= {}; round++) {{\n            Play.round(round == {}, {});\n",
        classes.join(", "),
        super::plan::USER,
        plan.rounds,
        plan.rounds,
        plan.stall.ms,
    );
    for act in &plan.acts {
        let done = act.steps.iter().filter(|&&step| !plan.is_served(step));
        _ = writeln!(text, "            Play.expect({});", done.count());
        for &step in &act.hands {
            _ = writeln!(text, "            {}", hand(plan, step));
        }
        text.push_str("            Play.awaitDone();\n");
    }
    text.push_str("        }\n    }\n}\n");
}

/// The class with `main` of the process that serves transactions.
fn server(plan: &Plan, step: StepId) -> String {
    format!(
        "public final class Server {{\n    public static void main(String[] args) throws Exception {{\n\
         \x20       Case run = Case.begin(args);\n        Play.prepare(run, \"{}\");\n\
         \x20       ServerSocket listening = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());\n\
         \x20       run.start(\"{}\", () -> SocketBinder.serve(listening, (code, data) -> {{\n\
         \x20           Play.length(data);\n            Step{step}.serve();\n            return code;\n        }}));\n\
         \x20       run.ready(listening.getLocalPort());\n        run.stay();\n    }}\n}}\n",
        plan.class(step),
        plan.lane(step).name,
    )
}

/// The statement that hands a step over.
fn hand(plan: &Plan, step: StepId) -> String {
    let lane = plan.lane(step).name.replace('-', "_");
    let delay = match plan.stall.partner == Some(step) {
        true => "Play.length()".to_owned(),
        // Long enough that it is not over when the step is put into the queue.
        false => (8 + step % 5).to_string(),
    };
    let gate = format!("Step{step}.gate");
    match plan.steps[step].way {
        Way::Post => format!("Main.{lane}.post(new Step{step}());"),
        Way::Send => {
            format!("new Step{step}(Main.{lane}.getLooper()).sendEmptyMessage({step});")
        }
        Way::PostDelayed => format!("Main.{lane}.postDelayed(new Step{step}(), {delay});"),
        Way::Execute => format!("Main.{lane}.execute(new Step{step}());"),
        Way::Submit => format!("{gate}.future = Main.{lane}.submit((Runnable) new Step{step}());"),
        Way::Call => format!("{gate}.future = Main.{lane}.submit(new Step{step}());"),
        Way::RunAsync => {
            format!("{gate}.future = CompletableFuture.runAsync(new Step{step}(), Main.{lane});")
        }
        Way::Schedule => format!(
            "{gate}.future = Main.{lane}.schedule((Runnable) new Step{step}(), {delay}, TimeUnit.MILLISECONDS);"
        ),
        Way::Arm => format!("Main.{lane}.schedule(new Step{step}(), {delay});"),
        Way::Put => format!("Main.{lane}.put(new Step{step}());"),
        Way::Mark => format!("Main.{lane}.post(new Step{step}());"),
        Way::Transact => format!("Main.service.transact({step}, (int) Play.length(), false);"),
        Way::Start => format!(
            "{gate}.thread = new Thread(new Step{step}(), \"{}\"); {gate}.thread.start();",
            plan.lane(step).name
        ),
    }
}

/// A step's class.
fn class(plan: &Plan, step: StepId, text: &mut String) {
    let (way, name) = (plan.steps[step].way, format!("Step{step}"));
    let (kind, entry) = match way {
        Way::Send => (
            "extends Handler",
            "    @Override public void handleMessage(Message message) { step(); }\n",
        ),
        Way::Call => (
            "implements Callable<Object>",
            "    @Override public Object call() { step(); return null; }\n",
        ),
        Way::Arm => (
            "extends TimerTask",
            "    @Override public void run() { step(); }\n",
        ),
        Way::Transact => (
            "",
            "    static void serve() { try { play(); } catch (Throwable e) { Play.fail(e); } }\n",
        ),
        Way::Start if plan.has_staying_threads => (
            "implements Runnable",
            "    @Override public void run() { step(); Play.stay(); }\n",
        ),
        _ => (
            "implements Runnable",
            "    @Override public void run() { step(); }\n",
        ),
    };
    _ = writeln!(
        text,
        "final class {name} {kind} {{\n    static final Gate gate = new Gate();\n"
    );
    if way == Way::Send {
        _ = writeln!(text, "    {name}(Looper looper) {{ super(looper); }}\n");
    }
    text.push_str(entry);
    if way != Way::Transact {
        text.push_str(
            "\n    private static void step() {\n        try {\n            play();\n        } catch (Throwable e) {\n\
             \x20           Play.fail(e);\n        }\n        Play.done();\n    }\n",
        );
    }
    let is_busy = |a: &Action| *a == Action::Terminal(Terminal::Busy);
    if plan.steps[step].actions.iter().any(is_busy) {
        text.push_str(
            "\n    private static void compute() {\n        Play.burn(Play.length());\n    }\n",
        );
    }
    text.push_str("\n    private static void play() throws Exception {\n");
    body(plan, step, text);
    text.push_str("    }\n}\n");
}

/// What a step does: its actions, in its lock, and then it ends the wait for it.
fn body(plan: &Plan, step: StepId, text: &mut String) {
    let about = &plan.steps[step];
    let mut line = |statement: &str| _ = writeln!(text, "        {statement}");
    match about.awaiting {
        Some(Awaiting::Monitor) => line("synchronized (gate.monitor) {"),
        Some(Awaiting::Lock) => line("gate.lock.lock(); try {"),
        _ => {}
    }
    line("gate.begin();");
    let is_root = plan.stall.chain.first() == Some(&step);
    if is_root {
        line("Play.input();");
    }
    for action in &about.actions {
        let statement = statement(plan, *action);
        if !statement.is_empty() {
            line(&statement);
        }
    }
    let waiter = match about.awaiting {
        None | Some(Awaiting::Transaction) => None,
        Some(Awaiting::Monitor) => Some("gate.awaitWaiter(true);"),
        Some(_) => Some("gate.awaitWaiter(false);"),
    };
    if let Some(waiter) = waiter {
        line(waiter);
    }
    match about.awaiting {
        Some(Awaiting::Latch) => line("gate.signalLatch();"),
        Some(Awaiting::Object) => line("gate.signalObject();"),
        Some(Awaiting::Park) => line("gate.signalPark();"),
        Some(Awaiting::Reply) => line("gate.signalReply();"),
        Some(Awaiting::Monitor) => line("}"),
        Some(Awaiting::Lock) => line("} finally { gate.lock.unlock(); }"),
        Some(Awaiting::Future | Awaiting::Join | Awaiting::Transaction) | None => {}
    }
    if is_root {
        line("Play.update();");
    }
}

fn statement(plan: &Plan, action: Action) -> String {
    match action {
        Action::Work(micros) => format!("Play.work({micros});"),
        Action::Nap(millis) => format!("Play.nap({millis});"),
        Action::Hand(step) => hand(plan, step),
        Action::Begun(step) => format!("Step{step}.gate.awaitBegun();"),
        Action::Awaited(step) => format!("Step{step}.gate.awaitWaiter(false);"),
        Action::Await(step) => {
            let about = &plan.steps[step];
            let how = match about.awaiting {
                Some(Awaiting::Latch) => "Latch",
                Some(Awaiting::Object) => "Object",
                Some(Awaiting::Park) => "Park",
                Some(Awaiting::Reply) => "Reply",
                Some(Awaiting::Future) => "Future",
                Some(Awaiting::Join) => "Join",
                Some(Awaiting::Lock) => "Lock",
                Some(Awaiting::Monitor) => return format!("Step{step}.gate.awaitMonitor();"),
                // The call that sends a transaction waits for its reply.
                Some(Awaiting::Transaction) | None => return String::new(),
            };
            format!("Step{step}.gate.await{how}({});", about.has_timeout)
        }
        Action::Terminal(terminal) => match terminal {
            Terminal::Busy => "compute();".to_owned(),
            Terminal::Sleep => "Thread.sleep(Play.length());".to_owned(),
            Terminal::Timeout => "Play.nap(Play.length());".to_owned(),
            Terminal::Yield => "Play.awaitSet();".to_owned(),
            Terminal::Timer => String::new(),
            Terminal::Circle | Terminal::Late => match plan.stall.partner {
                Some(other) => format!(
                    "Play.{}(new Thread(new Step{other}(), \"{}\"));",
                    match terminal {
                        Terminal::Circle => "circle",
                        _ => "awaitLate",
                    },
                    plan.lane(other).name
                ),
                None => String::new(),
            },
        },
        Action::Partner(Terminal::Circle) => "Play.otherOfCircle();".to_owned(),
        Action::Partner(Terminal::Late) => "Play.beLate();".to_owned(),
        Action::Partner(_) => "Play.set();".to_owned(),
    }
}
