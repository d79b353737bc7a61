/**
 * One object store for all suites of this folder, as a start costs more than most of them. They need no settings but a base domain, keep to
 * buckets of their own, and never restart it.
 */
import { after } from 'node:test'
import { ObjectStoreServer } from '../../../support/objectstore.ts'

export const BASE_DOMAIN = 'store.example'

export const store = await ObjectStoreServer.start({
  env: { OBJSTORE_BASE_DOMAIN: BASE_DOMAIN, TRILOG_TRUSTED_PROXIES: '127.0.0.0/8' },
})
after(() => store.stop())
