import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { withoutUrlSecrets } from '../src/url-secrets.ts'

describe('a URL that is shown', () => {
  for (const [given, shown] of [
    ['https://me:hunter2@host:1/x', 'https://…@host:1/x'],
    ['nats://hunter2@host:4222', 'nats://…@host:4222'],
    ['nats://a:hunter2@b:1,tls://hunter2@c:2', 'nats://…@b:1,tls://…@c:2'],
    ['https://me:hun@ter2@host/x', 'https://…@host/x'],
    ['https://me:hun/ter2@host/x', 'https://…@host/x'],
    ['https://me:hun?ter2#3@host/x', 'https://…@host/x'],
    ['https://host/x?token=hunter2', 'https://host/x?token=…'],
    ['https://host/x?a=hunter2&hunter2&b=#c', 'https://host/x?a=…&…&b=…#c'],
    ['s3://key:hunter2@bucket/prefix', 's3://…@bucket/prefix'],
    ['{"url":"http://u:hunter2@h/?t=hunter2","n":1}', '{"url":"http://…@h/?t=…","n":1}'],
    ['see http://host:9000/a@b, please', 'see http://host:9000/a@b, please'],
    ['http://[::1]:9000/a@b', 'http://[::1]:9000/a@b'],
    ['http://host/@scope/name', 'http://host/@scope/name'],
    ['what? a@b:c', 'what? a@b:c'],
  ] as const)
    it(`has no secret: ${given}`, () => assert.equal(withoutUrlSecrets(given), shown))
})
