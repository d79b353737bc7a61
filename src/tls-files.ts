/** What a listener speaks TLS with: settings name it, the HTTP front and gRPC take it. */

/** Paths of files in PEM. */
export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
  /** Whoever asks shows a certificate of it. Null: nobody is asked for one. */
  readonly clientCaFile: string | null
}

/** What the files said when they were read. */
export interface TlsMaterial {
  readonly cert: string
  readonly key: string
  readonly clientCa: string | null
  /** Of the certificate: when it ends. */
  readonly validTo: string
}
