/** How a bundle is called in messages: by the name of its directory. Where the data lies is no business of who queries it. */
export const bundleName = (directory: string): string => directory.slice(directory.lastIndexOf('/') + 1)
