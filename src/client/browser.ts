/** The client library of the broker in a browser: `import … from 'trilog/client'` with the condition `browser`. */
export { HttpNativeClient } from './browser-http-client.ts'
export type { HttpNativeClientSettings } from './browser-http-client.ts'
export * from './common.ts'
