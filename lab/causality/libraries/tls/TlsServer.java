// SPDX-License-Identifier: Apache-2.0
package com.example.tls;

import dev.hindsight.cases.Case;
import dev.hindsight.cases.HttpServer;

import java.io.File;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.security.KeyPair;
import java.security.cert.Certificate;

/** The server of {@link HttpServer}, by TLS. Its certificate is in the shared folder. */
public final class TlsServer {
    static final String CERTIFICATE = "server.certificate";

    private TlsServer() {}

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        KeyPair keys = Tls.keys();
        Certificate certificate = Tls.certificate(keys);
        Files.write(new File(run.folder(), CERTIFICATE).toPath(), certificate.getEncoded());
        ServerSocket listening = Tls.server(keys, certificate)
                .getServerSocketFactory()
                .createServerSocket(0, 50, InetAddress.getByName("localhost"));
        HttpServer.serve(run, listening);
    }
}
