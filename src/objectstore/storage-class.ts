/**
 * Storage classes of S3 that promise what STANDARD does: eleven nines of durability, and reads at once. They are kept and given back, and change
 * nothing. Not among them are those whose objects must be restored before they can be read (GLACIER, DEEP_ARCHIVE), the one that promises less
 * (REDUCED_REDUNDANCY), and those of other services.
 */
export const STORAGE_CLASSES = ['STANDARD', 'STANDARD_IA', 'ONEZONE_IA', 'INTELLIGENT_TIERING', 'GLACIER_IR'] as const

export type StorageClass = (typeof STORAGE_CLASSES)[number]

/** For requests that name none, and for objects that older versions of this service stored. */
export const DEFAULT_STORAGE_CLASS: StorageClass = 'STANDARD'

export const isStorageClass = (text: string): text is StorageClass =>
  (STORAGE_CLASSES as readonly string[]).includes(text)
