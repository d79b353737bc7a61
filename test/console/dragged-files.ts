/** A folder that a visitor drags into the page of objects. */
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
/** Files by path in the folder. */
export const DRAGGED = {
  'docs/2026/report.json': Buffer.from('{"count":12345678901234567890,"price":1.50}'),
  'docs/2026/pixel.png': Buffer.from(PIXEL, 'base64'),
  'docs/notes.txt': Buffer.from('as they are: {"a" :1'),
}
