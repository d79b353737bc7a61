/** s3cmd, which lists with version 1 of ListObjects only. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { runChecks } from './client.ts'
import type { Client, Result, Target } from './client.ts'
import { randomFile, runCommand, sameFiles, succeed, versionOf } from './command.ts'

const S3CMD = 's3cmd'
const BUCKET = 's3cmd'
const MIB = 1 << 20

export const s3cmd: Client = {
  name: 's3cmd',
  needs: 'list-v1',
  version: () => versionOf(S3CMD, ['--version'], /version (\S+)/, 'apt-get install s3cmd'),
  run,
}

function run({ endpoint, keyId, secret, region, directory }: Target): AsyncIterable<Result> {
  const { host } = new URL(endpoint)
  const configuration = `${directory}/s3cfg`
  const settings = {
    access_key: keyId,
    secret_key: secret,
    bucket_location: region,
    host_base: host,
    host_bucket: host,
    use_https: 'False',
    check_ssl_certificate: 'False',
  }
  writeFileSync(configuration, ['[default]', ...Object.entries(settings).map((pair) => pair.join(' = '))].join('\n'))
  const s3cmd = (...args: readonly string[]): string => succeed(S3CMD, ['-c', configuration, '--no-progress', ...args])
  const refused = (code: RegExp, ...args: readonly string[]): void => {
    const { status, stderr } = runCommand(S3CMD, ['-c', configuration, ...args])
    assert(status !== 0, 'not refused')
    assert.match(stderr, code)
  }
  const at = (key: string): string => `s3://${BUCKET}/${key}`

  return runChecks({
    'make a bucket, list buckets'() {
      s3cmd('mb', `s3://${BUCKET}`)
      assert.match(s3cmd('ls'), new RegExp(`s3://${BUCKET}$`, 'm'))
    },
    'put and get, content and metadata'() {
      const file = randomFile(`${directory}/small`, 100_000)
      s3cmd('put', file, at('a b/ü.bin'), '--add-header=x-amz-meta-colour:green', '--mime-type=text/x-test')
      const info = s3cmd('info', at('a b/ü.bin'))
      assert.match(info, /File size: 100000/)
      assert.match(info, /MIME type: text\/x-test/)
      assert.match(info, /x-amz-meta-colour: green/)
      s3cmd('get', at('a b/ü.bin'), `${directory}/small.back`)
      sameFiles(`${directory}/small.back`, file)
    },
    'put of 20 MiB goes in parts'() {
      const file = randomFile(`${directory}/big`, 20 * MIB + 1)
      s3cmd('put', file, at('big'), '--multipart-chunk-size-mb=8')
      s3cmd('get', at('big'), `${directory}/big.back`)
      sameFiles(`${directory}/big.back`, file)
    },
    ls() {
      assert.match(s3cmd('ls', `s3://${BUCKET}`), /DIR\s+s3:\/\/s3cmd\/a b\/\n.*20971521\s+s3:\/\/s3cmd\/big\n$/s)
      assert.match(s3cmd('ls', '--recursive', `s3://${BUCKET}`), /s3:\/\/s3cmd\/a b\/ü.bin\n.*big\n$/s)
      assert.match(s3cmd('du', `s3://${BUCKET}`), /^\s*21071521\s+2 objects/)
    },
    'sync up, again, down'() {
      const tree = `${directory}/tree/`
      mkdirSync(`${tree}deep`, { recursive: true })
      for (const name of ['one', 'deep/two']) writeFileSync(`${tree}${name}`, name)
      s3cmd('sync', tree, at('tree/'))
      assert.doesNotMatch(s3cmd('sync', tree, at('tree/')), /upload:/)
      mkdirSync(`${directory}/back`)
      s3cmd('sync', at('tree/'), `${directory}/back/`)
      assert.equal(readFileSync(`${directory}/back/deep/two`, 'utf8'), 'deep/two')
    },
    'copy, move'() {
      s3cmd('cp', at('tree/one'), at('copy'))
      s3cmd('mv', at('copy'), at('moved'))
      s3cmd('get', at('moved'), `${directory}/moved`)
      assert.equal(readFileSync(`${directory}/moved`, 'utf8'), 'one')
      refused(/does not exist/, 'get', at('copy'), `${directory}/absent`)
    },
    'sign a URL'() {
      assert.equal(succeed('curl', ['-sf', s3cmd('signurl', at('moved'), '+60').trim()]), 'one')
    },
    'policy, CORS'() {
      const statement = {
        Effect: 'Allow',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: `arn:aws:s3:::${BUCKET}/moved`,
      }
      writeFileSync(`${directory}/policy`, JSON.stringify({ Version: '2012-10-17', Statement: [statement] }))
      s3cmd('setpolicy', `${directory}/policy`, `s3://${BUCKET}`)
      assert.equal(succeed('curl', ['-sf', `${endpoint}/${BUCKET}/moved`]), 'one')
      s3cmd('delpolicy', `s3://${BUCKET}`)
      const rule = '<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>'
      writeFileSync(`${directory}/cors`, `<CORSConfiguration>${rule}</CORSConfiguration>`)
      s3cmd('setcors', `${directory}/cors`, `s3://${BUCKET}`)
      s3cmd('delcors', `s3://${BUCKET}`)
    },
    'multipart uploads that were begun'() {
      assert.match(s3cmd('multipart', `s3://${BUCKET}`), /Initiated/)
    },
    'delete, delete all, remove the bucket'() {
      refused(/BucketNotEmpty|not empty/, 'rb', `s3://${BUCKET}`)
      s3cmd('del', at('moved'))
      s3cmd('del', '--recursive', '--force', `s3://${BUCKET}`)
      s3cmd('rb', `s3://${BUCKET}`)
    },
  })
}
