/** Every request and answer of the broker by its name, for files that use many of them: `import type * as wire`. */
export type * from './group-answers.ts'
export type * from './node-answers.ts'
export type * from './queue-answers.ts'
export type * from './record-answers.ts'
export type * from './requests.ts'
export type * from './storage-answers.ts'
