/** Hostile search texts: long, nested, in every script, with control characters and halves of characters. */
import fc from 'fast-check'
import { SEARCH_LENGTH_MAX } from '../../src/logstore/search/expression.ts'
import { codePoint } from './code-point.ts'

/** One character or more of each script that Node knows words in, and what scripts are mixed with. */
const SAMPLES = [
  'größe ß İı ς Σ K ﬁ ǅ',
  'ошибка Ё отказ',
  'σφάλμα ὈΔΥΣΣΕΎΣ',
  'שגיאה אֱלֹהִים',
  'خطأ ﷺ مُحَمَّد',
  'त्रुटि ক্ষ தமிழ் తెలుగు ಕನ್ನಡ മലയാളം සිංහල',
  'ข้อผิดพลาด ເກີດ កំហុស အမှား བོད་',
  'エラー ｴﾗｰ ひらがな 日志 錯誤 ㄅㄆㄇ',
  '오류 ᄒᆞᆫᄀᆞᆯ',
  'შეცდომა ᲨᲔᲪᲓᲝᲛᲐ սխալ ስህተት ᏣᎳᎩ ꮳꮃꭹ ᠮᠣᠩᠭᠣᠯ ⵜⴰⵎⴰⵣⵉⵖⵜ',
  '𐐀𐐨 𞤀𞤢 𝒳𝟘 👩‍👩‍👧‍👦 🇪🇺 e\u0301\u0301\u0301',
  '\0\u0007\u001b[31m\u007f\u0085\u200b\u202e\u2028\ufeff\ufffe',
  '\ud800 \udfff',
]
const SYNTAX = [
  '(',
  ')',
  '"',
  '\\"',
  '-',
  '--',
  ':',
  '*',
  ' ',
  ' OR ',
  ' AND ',
  ' NOT ',
  '>=',
  'severity:',
  'a.b:',
  '"',
]

const unit = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...SAMPLES) },
  { weight: 4, arbitrary: fc.constantFrom(...SYNTAX) },
  { weight: 2, arbitrary: fc.constantFrom('timeout', 'a*', 'code:>41', '"get timeout"', '1e999', '9'.repeat(60)) },
  { weight: 1, arbitrary: fc.string({ unit: codePoint, maxLength: 8 }) },
)

/** Searches up to the length limit, and a little beyond it. */
export const hostileSearches: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: fc.array(unit, { maxLength: 60 }).map((parts) => parts.join('')) },
  { weight: 1, arbitrary: fc.string({ unit: codePoint, maxLength: 300 }) },
  {
    weight: 2,
    arbitrary: fc.tuple(unit, fc.nat({ max: SEARCH_LENGTH_MAX + 10 })).map(([part, length]) => filled(part, length)),
  },
)

const filled = (part: string, length: number): string =>
  part.repeat(Math.ceil(length / Math.max(1, part.length))).slice(0, length)

/** Texts of records that such searches take long to examine. */
export const HOSTILE_TEXTS: readonly string[] = SAMPLES.map((sample) => sample.toWellFormed())

/** The longest searches of their kinds, each as costly as the grammar allows. */
export const COSTLY_SEARCHES: readonly string[] = [
  Array.from({ length: 127 }, (_, i) => `ошибка${i}я`).join(' OR '),
  Array.from({ length: 127 }, (_, i) => `-größe${i}`).join(' '),
  `"${'日'.repeat(256)}"`,
  `"${'a '.repeat(255)}b"`,
  Array.from({ length: 39 }, () => `"${'ß '.repeat(120)}x"`).join(' OR '),
  `${'('.repeat(32)}é${')'.repeat(32)}`,
  Array.from({ length: 127 }, (_, i) => `body.a.b.c${i}:é*`).join(' OR '),
  Array.from({ length: 127 }, (_, i) => `é${i}:*`).join(' OR '),
]

/** Each kind as long as a search may be, and longer by one. */
export const EXTREME_SEARCHES: readonly (readonly [what: string, search: string])[] = (
  [
    ['parentheses that are opened only', '('],
    ['parentheses around parentheses', '()'],
    ['thousands of OR', 'a OR '],
    ['OR without words', ' OR '],
    ['prefixes of one letter', 'e* '],
    ['negations', '-'],
    ['quotation marks', '"'],
    ['combining marks on one letter', '\u0301'],
    ['right-to-left text with marks of direction', 'שגיאה \u202e خطأ \u2067'],
    ['emoji joined to one', '👩\u200d'],
    ['flags cut in the middle', '🇪🇺🇪'],
    ['variation selectors', '✌\ufe0f\u{1f3fd}'],
    ['halves of characters', '\ud83d'],
    ['second halves of characters', '\udc69 '],
    ['control characters', '\0\u0001\u0008\u007f\u009f'],
    ['letters that become three without case', 'ΐ'],
    ['comparisons without a value', 'a:>='],
    ['keys of dots', '.:'],
    ['digits', '9'],
  ] as const
).flatMap(([what, part]) => [
  [what, filled(part, SEARCH_LENGTH_MAX)] as const,
  [`${what}, one too many`, filled(part, SEARCH_LENGTH_MAX + 1)] as const,
])
