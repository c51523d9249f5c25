// SPDX-License-Identifier: Apache-2.0
package com.example.tls;

import org.bouncycastle.asn1.ASN1Encodable;
import org.bouncycastle.asn1.ASN1Integer;
import org.bouncycastle.asn1.DERBitString;
import org.bouncycastle.asn1.DERSequence;
import org.bouncycastle.asn1.x500.X500Name;
import org.bouncycastle.asn1.x509.AlgorithmIdentifier;
import org.bouncycastle.asn1.x509.Extension;
import org.bouncycastle.asn1.x509.Extensions;
import org.bouncycastle.asn1.x509.GeneralName;
import org.bouncycastle.asn1.x509.GeneralNames;
import org.bouncycastle.asn1.x509.SubjectPublicKeyInfo;
import org.bouncycastle.asn1.x509.TBSCertificate;
import org.bouncycastle.asn1.x509.Time;
import org.bouncycastle.asn1.x509.V3TBSCertificateGenerator;
import org.bouncycastle.asn1.x9.X9ObjectIdentifiers;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.bouncycastle.jsse.provider.BouncyCastleJsseProvider;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.net.URLStreamHandlerFactory;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.ECGenParameterSpec;
import java.util.Date;

import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** TLS 1.2 by Bouncy Castle's provider, with a certificate for {@code localhost} that signs itself. */
final class Tls {
    private static final char[] PASSWORD = "password".toCharArray();
    private static final long DAY_MS = 24L * 60 * 60 * 1000;

    /**
     * Handlers of URLs. The core libraries name a URL of http when they load cryptography, which needs one before the program has its
     * own.
     */
    static volatile URLStreamHandlerFactory handlers = protocol -> new NoHandler();

    static {
        URL.setURLStreamHandlerFactory(protocol -> handlers.createURLStreamHandler(protocol));
    }

    private static final Provider CRYPTOGRAPHY = new BouncyCastleProvider();
    private static final Provider TLS = new BouncyCastleJsseProvider(CRYPTOGRAPHY);

    private Tls() {}

    /** Opens nothing. */
    private static final class NoHandler extends URLStreamHandler {
        @Override
        protected URLConnection openConnection(URL url) throws IOException {
            throw new IOException("no handler of URLs is set");
        }
    }

    /** For a server that has these keys and this certificate. */
    static SSLContext server(KeyPair keys, Certificate certificate) throws GeneralSecurityException, IOException {
        KeyStore store = emptyStore();
        store.setKeyEntry("server", keys.getPrivate(), PASSWORD, new Certificate[] {certificate});
        KeyManagerFactory managers = KeyManagerFactory.getInstance("PKIX", TLS);
        managers.init(store, PASSWORD);
        SSLContext context = SSLContext.getInstance("TLSv1.2", TLS);
        context.init(managers.getKeyManagers(), null, new SecureRandom());
        return context;
    }

    /** For a client that trusts these. */
    static SSLContext client(TrustManager[] trusted) throws GeneralSecurityException {
        SSLContext context = SSLContext.getInstance("TLSv1.2", TLS);
        context.init(null, trusted, new SecureRandom());
        return context;
    }

    /** Trusts this certificate, and no other one. */
    static TrustManager[] trusting(byte[] certificate) throws GeneralSecurityException, IOException {
        KeyStore store = emptyStore();
        store.setCertificateEntry("server", certificate(certificate));
        TrustManagerFactory managers = TrustManagerFactory.getInstance("PKIX", TLS);
        managers.init(store);
        return managers.getTrustManagers();
    }

    private static KeyStore emptyStore() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance("PKCS12", CRYPTOGRAPHY);
        store.load(null, null);
        return store;
    }

    static KeyPair keys() throws GeneralSecurityException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", CRYPTOGRAPHY);
        generator.initialize(new ECGenParameterSpec("secp256r1"));
        return generator.generateKeyPair();
    }

    /** A certificate of these keys, by themselves. */
    static Certificate certificate(KeyPair keys) throws GeneralSecurityException, IOException {
        AlgorithmIdentifier algorithm = new AlgorithmIdentifier(X9ObjectIdentifiers.ecdsa_with_SHA256);
        X500Name name = new X500Name("CN=localhost");
        GeneralNames names = new GeneralNames(new GeneralName(GeneralName.dNSName, "localhost"));
        long now = System.currentTimeMillis();
        V3TBSCertificateGenerator generator = new V3TBSCertificateGenerator();
        generator.setSerialNumber(new ASN1Integer(1));
        generator.setSignature(algorithm);
        generator.setIssuer(name);
        generator.setSubject(name);
        generator.setStartDate(new Time(new Date(now - DAY_MS)));
        generator.setEndDate(new Time(new Date(now + DAY_MS)));
        generator.setSubjectPublicKeyInfo(SubjectPublicKeyInfo.getInstance(keys.getPublic().getEncoded()));
        generator.setExtensions(new Extensions(
                new Extension(Extension.subjectAlternativeName, false, names.getEncoded())));
        TBSCertificate content = generator.generateTBSCertificate();
        Signature signature = Signature.getInstance("SHA256withECDSA", CRYPTOGRAPHY);
        signature.initSign(keys.getPrivate());
        signature.update(content.getEncoded());
        DERBitString signed = new DERBitString(signature.sign());
        return certificate(new DERSequence(new ASN1Encodable[] {content, algorithm, signed}).getEncoded());
    }

    private static Certificate certificate(byte[] encoded) throws GeneralSecurityException {
        CertificateFactory factory = CertificateFactory.getInstance("X.509", CRYPTOGRAPHY);
        return factory.generateCertificate(new ByteArrayInputStream(encoded));
    }
}
