/** What `command.ts` and the process that it starts, `command-host.ts`, tell each other. */

export interface HostedCommand {
  /** The address of the entry point. */
  readonly entry: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** Stands behind what a command wrote, on both streams; then comes the exit code, then this once more. No command writes it. */
export const END = '\0'
