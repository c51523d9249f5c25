// SPDX-License-Identifier: Apache-2.0
//! Rules for libraries with queues of their own (`docs/events.md`): the text that `rules=libraries` stands for.
//!
//! A queue that the class library does not know hides who asked for a piece of work. These rules record where a library puts
//! work into such a queue, and where a thread takes it out and runs it. The reader joins both ends by the object that they
//! name (`host/causality/rules/libraries.toml`).

/// The name that stands for [`TEXT`] where a file of rules is expected.
pub const NAME: &str = "libraries";

/// How the names of the rules begin.
pub const PREFIX: &str = "library:";

/// The rules, as in a file. They ran with RxJava 3.1, Kotlin's coroutines 1.0, Netty 4.1.48, OkHttp 3.13 and Guava 31; where
/// another version has other names, the rules wait for classes that it does not have.
pub const TEXT: &str = "\
# RxJava 3: the queues between operators, and those of schedulers that are made of executors.
method io.reactivex.rxjava3.operators.SpscArrayQueue.offer(java.lang.Object) identity=this+argument-1 name=library:rxjava-array-put
method io.reactivex.rxjava3.operators.SpscArrayQueue.poll() identity=this+result name=library:rxjava-array-take
method io.reactivex.rxjava3.operators.SpscArrayQueue.clear() name=library:rxjava-array-clear
method io.reactivex.rxjava3.operators.SpscLinkedArrayQueue.offer(java.lang.Object) identity=this+argument-1 name=library:rxjava-linked-put
method io.reactivex.rxjava3.operators.SpscLinkedArrayQueue.poll() identity=this+result name=library:rxjava-linked-take
method io.reactivex.rxjava3.operators.SpscLinkedArrayQueue.clear() name=library:rxjava-linked-clear
method io.reactivex.rxjava3.internal.queue.MpscLinkedQueue.offer(java.lang.Object) identity=this+argument-1 name=library:rxjava-mpsc-put
method io.reactivex.rxjava3.internal.queue.MpscLinkedQueue.poll() identity=this+result name=library:rxjava-mpsc-take
method io.reactivex.rxjava3.internal.queue.MpscLinkedQueue.clear() name=library:rxjava-mpsc-clear

# Kotlin's coroutines: the dispatchers Default and IO, and delays.
method kotlinx.coroutines.scheduling.CoroutineScheduler.dispatch(java.lang.Runnable, kotlinx.coroutines.scheduling.TaskContext, boolean) identity=argument-1 name=library:coroutines-put
method kotlinx.coroutines.DispatchedTask.run() name=library:coroutines-run
method kotlinx.coroutines.scheduling.TaskImpl.<init> name=library:coroutines-task-put
method kotlinx.coroutines.scheduling.TaskImpl.run() name=library:coroutines-task-run
method kotlinx.coroutines.EventLoopBase$DelayedResumeTask.<init> name=library:coroutines-delay-put
method kotlinx.coroutines.EventLoopBase$DelayedResumeTask.run() name=library:coroutines-delay-run
method kotlinx.coroutines.EventLoopBase$DelayedRunnableTask.<init> name=library:coroutines-timeout-put
method kotlinx.coroutines.EventLoopBase$DelayedRunnableTask.run() name=library:coroutines-timeout-run

# Netty 4.1: event loops.
method io.netty.util.concurrent.SingleThreadEventExecutor.addTask(java.lang.Runnable) identity=argument-1 name=library:netty-put
method io.netty.util.concurrent.AbstractScheduledEventExecutor.scheduleFromEventLoop(io.netty.util.concurrent.ScheduledFutureTask) identity=argument-1 name=library:netty-put-later
method io.netty.util.concurrent.AbstractEventExecutor.safeExecute(java.lang.Runnable) identity=argument-1 name=library:netty-run

# OkHttp 3: calls that wait because there are too many, or too many to one host.
method okhttp3.Dispatcher.enqueue(okhttp3.RealCall$AsyncCall) identity=argument-1 name=library:okhttp-put
method okhttp3.RealCall$AsyncCall.execute() name=library:okhttp-run

# Guava: listeners of futures, sequential executors, and the event bus.
method com.google.common.util.concurrent.AbstractFuture.executeListener(java.lang.Runnable, java.util.concurrent.Executor) identity=argument-1 name=library:guava-listener-put
method com.google.common.util.concurrent.AbstractTransformFuture.run() name=library:guava-listener-run-transform
method com.google.common.util.concurrent.AbstractCatchingFuture.run() name=library:guava-listener-run-catching
method com.google.common.util.concurrent.Futures$CallbackListener.run() name=library:guava-listener-run-callback
method com.google.common.util.concurrent.SequentialExecutor$1.<init> name=library:guava-sequential-put
method com.google.common.util.concurrent.SequentialExecutor$1.run() name=library:guava-sequential-run
method com.google.common.eventbus.Subscriber.dispatchEvent(java.lang.Object) identity=this+argument-1 name=library:guava-event-put
method com.google.common.eventbus.Subscriber.invokeSubscriberMethod(java.lang.Object) identity=this+argument-1 name=library:guava-event-run
";
