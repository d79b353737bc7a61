/** rclone, as users of another S3 set it up. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { runChecks } from './client.ts'
import type { Client, Result, Target } from './client.ts'
import { md5Of, randomFile, runCommand, sameFiles, succeed, versionOf } from './command.ts'

const RCLONE = 'rclone'
const BUCKET = 'rclone'
const MIB = 1 << 20

export const rclone: Client = {
  name: 'rclone',
  needs: 'nothing',
  version: () => versionOf(RCLONE, ['version'], /rclone v(\S+)/, 'apt-get install rclone'),
  run,
}

function run({ endpoint, keyId, secret, region, directory }: Target): AsyncIterable<Result> {
  const settings = {
    type: 's3',
    provider: 'Other',
    endpoint,
    region,
    access_key_id: keyId,
    secret_access_key: secret,
    list_version: '2',
    upload_cutoff: '8Mi',
    chunk_size: '8Mi',
  }
  const configuration = `${directory}/rclone.conf`
  writeFileSync(configuration, ['[store]', ...Object.entries(settings).map((pair) => pair.join(' = '))].join('\n'))
  const flags = ['--config', configuration, '--retries', '1', '--low-level-retries', '1']
  const rclone = (...args: readonly string[]): string => succeed(RCLONE, [...flags, ...args])
  const at = (path: string): string => `store:${BUCKET}/${path}`

  return runChecks({
    'make a bucket, list buckets'() {
      rclone('mkdir', `store:${BUCKET}`)
      assert.match(rclone('lsd', 'store:'), new RegExp(` ${BUCKET}$`, 'm'))
    },
    'copy up and down, content, times, hashes'() {
      const file = randomFile(`${directory}/small`, 100_000)
      rclone('copyto', file, at('a b/ü +.bin'))
      assert.match(rclone('md5sum', at('a b')), new RegExp(`^${md5Of(file)} `))
      rclone('copyto', at('a b/ü +.bin'), `${directory}/small.back`)
      sameFiles(`${directory}/small.back`, file)
    },
    'copy of 20 MiB goes in parts'() {
      const file = randomFile(`${directory}/big`, 20 * MIB + 1)
      rclone('copyto', file, at('big'))
      rclone('copyto', at('big'), `${directory}/big.back`)
      sameFiles(`${directory}/big.back`, file)
    },
    'rcat, cat, a range'() {
      succeed('sh', ['-c', `printf 0123456789 | ${RCLONE} --config ${configuration} rcat ${at('piped')}`])
      assert.equal(rclone('cat', at('piped')), '0123456789')
      assert.equal(rclone('cat', '--offset', '2', '--count', '3', at('piped')), '234')
    },
    'sync up, check, again, down, with deletes'() {
      const tree = `${directory}/tree`
      mkdirSync(`${tree}/deep`, { recursive: true })
      for (const name of ['one', 'two', 'deep/three']) writeFileSync(`${tree}/${name}`, name)
      rclone('sync', tree, at('tree'))
      rclone('check', '--download', tree, at('tree'))
      assert.match(
        runCommand(RCLONE, [...flags, 'sync', '--stats-one-line', '-v', tree, at('tree')]).stderr,
        /no transfer|nothing to transfer/i,
      )
      rclone('deletefile', at('tree/two'))
      rclone('sync', at('tree'), `${directory}/back`)
      assert.equal(readFileSync(`${directory}/back/deep/three`, 'utf8'), 'deep/three')
      assert.equal(rclone('lsf', '-R', '--files-only', at('tree')), 'deep/three\none\n')
    },
    'copy and move within the store'() {
      rclone('copyto', at('big'), at('big copy'))
      rclone('check', '--one-way', '--include', 'big', directory, `store:${BUCKET}`)
      rclone('moveto', at('piped'), at('moved'))
      assert.equal(rclone('cat', at('moved')), '0123456789')
      assert.equal(rclone('size', '--json', at('big copy')), '{"count":1,"bytes":20971521,"sizeless":0}\n')
    },
    'link: a signed URL'() {
      assert.equal(succeed('curl', ['-sf', rclone('link', '--expire', '1m', at('moved')).trim()]), '0123456789')
    },
    'uploads that were begun are listed and removed'() {
      rclone('backend', 'list-multipart-uploads', `store:${BUCKET}`)
      rclone('cleanup', `store:${BUCKET}`)
    },
    'purge removes all and the bucket'() {
      rclone('purge', `store:${BUCKET}`)
      assert.doesNotMatch(rclone('lsd', 'store:'), new RegExp(` ${BUCKET}$`, 'm'))
    },
  })
}
