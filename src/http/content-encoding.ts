/** Whether a body is sent as it is, by its Content-Encoding header ('' when absent). */
export const isIdentity = (header: string): boolean => ['', 'identity'].includes(header.trim().toLowerCase())
