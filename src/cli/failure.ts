/** Why a command of `mq` or `trilog logs` ends without what it was asked for, and its exit code. Source: contract "Broker", CLI. */

/** The service or the data said no, or could not be reached. */
export const EXIT_REFUSED = 1
/** The command line or the configuration cannot work. */
export const EXIT_USAGE = 2

/** As the body of a refusal over HTTP has it. */
export interface FailureDetail {
  readonly code: string
  readonly message: string
  /** What to do about it. */
  readonly action: string
  readonly retryable: boolean
}

export class CliFailure extends Error {
  readonly detail: FailureDetail
  readonly exitCode: number

  constructor(exitCode: number, detail: FailureDetail, options?: ErrorOptions) {
    super(detail.message, options)
    this.name = 'CliFailure'
    this.detail = detail
    this.exitCode = exitCode
  }
}

const SEE_HELP = 'Fix the command line; --help shows it with examples.'

export const usageFailure = (message: string, action = SEE_HELP): CliFailure =>
  new CliFailure(EXIT_USAGE, { code: 'usage', message, action, retryable: false })

export const refusal = (
  code: string,
  message: string,
  { action, retryable = false, cause }: { action: string; retryable?: boolean; cause?: unknown },
): CliFailure => new CliFailure(EXIT_REFUSED, { code, message, action, retryable }, { cause })
