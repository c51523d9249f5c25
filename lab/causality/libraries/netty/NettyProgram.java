// SPDX-License-Identifier: Apache-2.0
package com.example.netty;

import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;
import dev.hindsight.cases.Hops;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoop;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.util.concurrent.DefaultEventExecutorGroup;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** An echo server and its client, on event loops; answers go to a group of executors and to the main thread. */
public final class NettyProgram {
    private static final int TASKS = 20;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        Handler main = new Handler(Looper.getMainLooper());
        CountDownLatch end = Hops.endAfter(run, TASKS + 2);
        NioEventLoopGroup loops = new NioEventLoopGroup(2);
        DefaultEventExecutorGroup workers = new DefaultEventExecutorGroup(2);
        Channel server = new ServerBootstrap()
                .group(loops)
                .channel(NioServerSocketChannel.class)
                .childHandler(new ChannelInitializer<Channel>() {
                    @Override
                    protected void initChannel(Channel channel) {
                        channel.pipeline().addLast(new Echo());
                    }
                })
                .bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
                .sync()
                .channel();
        Channel client = new Bootstrap()
                .group(loops)
                .channel(NioSocketChannel.class)
                .handler(new ChannelInitializer<Channel>() {
                    @Override
                    protected void initChannel(Channel channel) {
                        channel.pipeline().addLast(workers, new Answer(main, end));
                    }
                })
                .connect(server.localAddress())
                .sync()
                .channel();
        EventLoop loop = client.eventLoop();
        for (int i = 0; i < TASKS; i++) {
            int first = Hops.submit();
            loop.execute(() -> {
                Hops.run(first);
                int second = Hops.submit();
                workers.next().execute(() -> {
                    Hops.run(second);
                    int third = Hops.submit();
                    main.post(() -> {
                        Hops.run(third);
                        end.countDown();
                    });
                    Hops.submitted(third);
                });
                Hops.submitted(second);
            });
            Hops.submitted(first);
        }
        int delayed = Hops.submit();
        loop.schedule(() -> {
            Hops.run(delayed);
            client.writeAndFlush(Unpooled.wrappedBuffer(new byte[] {1}));
            end.countDown();
        }, 20, TimeUnit.MILLISECONDS);
        Hops.submitted(delayed);
        run.ready();
        Looper.loop();
    }
}

/** The server's side. */
final class Echo extends ChannelInboundHandlerAdapter {
    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        context.writeAndFlush(message);
    }
}

/** The client's side. */
final class Answer extends ChannelInboundHandlerAdapter {
    private final Handler main;
    private final CountDownLatch end;

    Answer(Handler main, CountDownLatch end) {
        this.main = main;
        this.end = end;
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        ((ByteBuf) message).release();
        int hop = Hops.submit();
        main.post(() -> {
            Hops.run(hop);
            end.countDown();
        });
        Hops.submitted(hop);
    }
}
