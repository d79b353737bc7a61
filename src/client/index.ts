/** The client library of the broker on Node: `import … from 'trilog/client'`. */
export * from './common.ts'
export { openEmbeddedBroker } from './embedded.ts'
export type { EmbeddedBroker, EmbeddedBrokerConfig } from './embedded.ts'
export { nodeTransport } from './http/node-transport.ts'
export type { TlsSettings } from './http/node-transport.ts'
export { NativeClient } from './native-client.ts'
export { HttpNativeClient } from './node-http-client.ts'
export type { HttpNativeClientSettings } from './node-http-client.ts'
