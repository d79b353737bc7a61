/** Object stores that clients are tried on, as processes of their own. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { startServer, until } from '../compare/server.ts'
import type { Server } from '../compare/server.ts'
import type { Target } from './client.ts'

const MAIN = fileURLToPath(new URL('../../src/start.js', import.meta.url))
const READY = /^ready (\{.*\})$/m
const KEY = { keyId: 'AKIDTRILOGCLIENTS', secret: 'secret/of+the clients' }
const REGION = 'us-east-1'

export interface Store extends Omit<Target, 'directory'> {
  readonly server: Server
  readonly hasListV1: boolean
}

/** @param directory empty */
export async function startStore(
  directory: string,
  { auth, hasListV1 }: Pick<Store, 'auth' | 'hasListV1'>,
): Promise<Store> {
  const credentialsFile = `${directory}/credentials.json`
  const permissions = ['read', 'write', 'list', 'delete', 'admin']
  const key = { access_key_id: KEY.keyId, secret_access_key: KEY.secret, principal: 'clients', permissions }
  writeFileSync(credentialsFile, JSON.stringify({ keys: [key] }))
  const server = startServer(process.execPath, [MAIN, '--services', 'objectstore'], {
    env: {
      OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
      OBJSTORE_DATA_DIR: `${directory}/data`,
      OBJSTORE_BASE_DOMAIN: 'localhost',
      OBJSTORE_REGION: REGION,
      OBJSTORE_AUTH_MODE: auth,
      ...(auth === 'sigv4' && { OBJSTORE_CREDENTIALS_FILE: credentialsFile }),
      ...(hasListV1 && { OBJSTORE_EXTENSIONS: 'list-v1' }),
    },
  })
  await until(server, () => READY.test(server.stdout()))
  const { http } = JSON.parse(READY.exec(server.stdout())![1]!) as { http: string } // the contract's ready line
  const name = hasListV1 ? `${auth}, list-v1` : auth
  return { name, auth, hasListV1, endpoint: `http://${http}`, region: REGION, ...KEY, server }
}
