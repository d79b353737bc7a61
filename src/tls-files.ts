/** What a listener speaks TLS with: settings name it, the HTTP front and gRPC take it. */

/** Paths of files in PEM. */
export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
  /** Clients must show a certificate of this authority. Null: they are not asked for one. */
  readonly clientCaFile: string | null
}

/** Content of the files when they were read. */
export interface TlsMaterial {
  readonly cert: string
  readonly key: string
  readonly clientCa: string | null
  /** When the certificate ends. */
  readonly validTo: string
}
