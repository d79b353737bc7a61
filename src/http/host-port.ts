/** `127.0.0.1:4318`, `[::1]:4318`. */
export const hostPort = ({ host, port }: { readonly host: string; readonly port: number }): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
