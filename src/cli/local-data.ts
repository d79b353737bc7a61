/**
 * A data directory that no node holds, as commands use it.
 *
 * L1  a command that reads opens it without writing, and makes nothing (src/log/read-only-log.ts)
 * L2  only `stream create` makes a directory: for every other command one without data is a mistake
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { openEmbeddedBroker } from '../client/embedded.ts'
import type { NativeClient } from '../client/native-client.ts'
import { HttpBrokerError, SdkError } from '../client/sdk-error.ts'
import { LOCAL_CALLER } from '../broker/headless.ts'
import { OfflineBroker } from '../broker/offline.ts'
import { BrokerError } from '../broker/refusals.ts'
import { StoreError, messageOf } from '../errors.ts'
import { createLogger, loggerOf } from '../observability/logger.ts'
import { refusal, usageFailure } from './failure.ts'
import type { CliFailure } from './failure.ts'

const PRODUCER_ID = 'mq-cli'
const CHOOSE = 'Give a directory that this user can read and write.'
export const LOCAL_TENANT = LOCAL_CALLER.tenant

/** L1. @throws CliFailure when the directory cannot be read */
export async function reading<T>(directory: string, read: (data: OfflineBroker) => Promise<T>): Promise<T> {
  const path = resolve(directory)
  try {
    const data = await OfflineBroker.open(path, loggerOf(createLogger('error'), 'mq'))
    try {
      return await read(data)
    } finally {
      await data.close()
    }
  } catch (error) {
    throw failureOf(error, path)
  }
}

/** @throws CliFailure when the directory cannot be changed */
export async function changing<T>(
  directory: string,
  { creates }: { readonly creates: boolean },
  change: (client: NativeClient) => Promise<T>,
): Promise<T> {
  const path = resolve(directory)
  if (!creates && !existsSync(path)) throw nothingIn(path) // L2
  try {
    const broker = await openEmbeddedBroker({
      dataDirectory: path,
      logger: loggerOf(createLogger('error'), 'mq'),
    })
    try {
      return await change(broker.client({ producerId: PRODUCER_ID }))
    } finally {
      await broker.close()
    }
  } catch (error) {
    throw failureOf(error, path)
  }
}

const nothingIn = (path: string): CliFailure =>
  refusal('data_directory_empty', `${path} holds no data of a broker`, {
    action: 'Check --data-dir, or create a stream there: mq cli --data-dir <PATH> stream create <stream>.',
  })

function failureOf(error: unknown, path: string): unknown {
  if (error instanceof HttpBrokerError || error instanceof BrokerError) {
    const { action, retryable } = error instanceof BrokerError ? error.detail : error
    return refusal(error.code, error.message, { action, retryable, cause: error })
  }
  const store = error instanceof SdkError && error.cause instanceof StoreError ? innermost(error.cause) : error
  if (store instanceof StoreError) return storeFailure(store, path)
  if (error instanceof SdkError) return usageFailure(error.message)
  if (!(error instanceof Error && 'code' in error && 'syscall' in error)) return error
  return usageFailure(`--data-dir ${path} cannot be used: ${messageOf(error)}`, CHOOSE)
}

/** The message of the innermost error does not begin with the settings of a node. */
const innermost = (error: StoreError): StoreError =>
  error.cause instanceof StoreError ? innermost(error.cause) : error

function storeFailure(error: StoreError, path: string): CliFailure {
  if (error.code === 'data_directory_empty') return nothingIn(path)
  if (error.code === 'data_directory_unusable') return usageFailure(error.message, CHOOSE)
  const action =
    error.code === 'data_directory_locked'
      ? 'Ask the node instead, by --target http://host:port, or stop it.'
      : 'Check --data-dir, and fix what the message names.'
  return refusal(error.code, error.message, { action, retryable: error.kind === 'unavailable', cause: error })
}
