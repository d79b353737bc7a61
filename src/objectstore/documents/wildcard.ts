/**
 * Patterns with `*` for any text and, where it is allowed, `?` for any one character. Split once into the pieces between the stars, so that
 * no pattern makes matching slower than the lengths of text and longest piece multiplied.
 */
export type Matcher = (text: string) => boolean

export function wildcard(pattern: string): Matcher {
  const pieces = pattern.split('*')
  const first = pieces[0]!
  const last = pieces.at(-1)!
  if (pieces.length === 1) return (text) => text.length === first.length && pieceAt(text, first, 0)
  const between = pieces.slice(1, -1).filter((piece) => piece !== '')
  return (text) => {
    if (!pieceAt(text, first, 0)) return false
    const end = text.length - last.length
    if (!pieceAt(text, last, end)) return false
    let at = first.length
    for (const piece of between) {
      const found = findPiece(text, piece, at)
      if (found < 0) return false
      at = found + piece.length
    }
    return at <= end
  }
}

function pieceAt(text: string, piece: string, at: number): boolean {
  if (!piece.includes('?')) return text.startsWith(piece, at)
  for (let i = 0; i < piece.length; i++) {
    if (piece[i] !== '?' && piece[i] !== text[at + i]) return false
  }
  return text.length >= at + piece.length
}

function findPiece(text: string, piece: string, from: number): number {
  if (!piece.includes('?')) return text.indexOf(piece, from)
  for (let at = from; at <= text.length - piece.length; at++) if (pieceAt(text, piece, at)) return at
  return -1
}
