/**
 * One object store for all suites of this folder, as starting one takes longer than most of them. Suites need no settings but a base domain,
 * use only their own buckets, and never restart the store.
 */
import { after } from 'node:test'
import { ObjectStoreServer } from '../../../support/objectstore.ts'

export const BASE_DOMAIN = 'store.example'

export const store = await ObjectStoreServer.start({
  env: { OBJSTORE_BASE_DOMAIN: BASE_DOMAIN, TRILOG_TRUSTED_PROXIES: '127.0.0.0/8' },
})
after(() => store.stop())
