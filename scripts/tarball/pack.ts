/** What the self-contained tarball is made of besides copies: the archive itself, and the commands in its `bin`. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'

/** A command in `bin`. It finds its own place also when it is called by a link, as from /usr/local/bin. */
export const launcher = (command: string): string => `#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/../lib/node" --v8-pool-size=0 "$here/../lib/trilog/bin/${command}.js" "$@"
`

/** Packs `parent/name` into the file: everything below `name/`, owned by root, whatever user made it. */
export function pack(parent: string, name: string, file: string): void {
  run('tar', ['--create', '--gzip', '--owner=0', '--group=0', `--file=${file}`, `--directory=${parent}`, name], parent)
}

/** Its output goes to that of this process. */
export function run(command: string, args: readonly string[], cwd: string): void {
  const { status } = spawnSync(command, args, { cwd, stdio: 'inherit' })
  assert.equal(status, 0, `${command} ${args.join(' ')} failed`)
}
