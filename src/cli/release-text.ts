/** What `--version` shows. */

export interface Release {
  readonly version: string
  /** Version of the Node that runs it. */
  readonly node: string
}

export const shownRelease = (name: string, { version, node }: Release, json: boolean): string =>
  json ? JSON.stringify({ name, version, node }) : `${name} ${version}\nnode ${node}`
