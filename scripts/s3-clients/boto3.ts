/** boto3, the SDK of Python. What it does is in `checks.py`. */
import { fileURLToPath } from 'node:url'
import type { Client, Result, Target } from './client.ts'
import { awsEnvironment, runCommand, versionOf } from './command.ts'

const PYTHON = 'python3'
const CHECKS = fileURLToPath(new URL('checks.py', import.meta.url))

export const boto3: Client = {
  name: 'boto3',
  needs: 'nothing',
  version: () => versionOf(PYTHON, ['-c', 'import boto3; print(boto3.__version__)'], /^(\S+)\s*$/, 'pip install boto3'),
  run,
}

async function* run(target: Target): AsyncIterable<Result> {
  const { endpoint, auth } = target
  const { stdout, stderr, status } = runCommand(PYTHON, [CHECKS, endpoint, 'boto3', auth], awsEnvironment(target))
  for (const line of stdout.split('\n')) if (line !== '') yield JSON.parse(line) as Result // as checks.py prints it
  if (status !== 0)
    yield { check: 'runs to its end', problem: stderr.trim().split('\n').at(-1) ?? `ended with ${status}` }
}
