/** What the self-contained tarball has as it is: documents, what they link to, and the examples for the operator. */
export const COPIED: readonly string[] = [
  'README.md',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'LICENSE',
  'deploy',
  'docs',
]
