/** What `command.ts` and the process that it starts, `command-host.ts`, tell each other. */

export interface HostedCommand {
  /** The address of the entry point. */
  readonly entry: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** Mark behind a command's output, on both streams. The exit code follows, then a second mark. No command writes it. */
export const END = '\0'
