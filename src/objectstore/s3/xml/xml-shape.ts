/**
 * What an XML document may look like, as data: the reader checks while it parses, so a document that does not fit is refused at its first
 * wrong element, and depth and number of elements are bounded by the shape.
 */
import type { RefusalCode } from '../../refusals.ts'

export interface TextShape {
  readonly kind: 'text'
}

export interface ElementShape<Children extends ChildShapes = ChildShapes> {
  readonly kind: 'element'
  readonly children: Children
  /** `children` as pairs. */
  readonly childList: readonly (readonly [name: string, child: ChildShape])[]
}

export type Shape = TextShape | ElementShape
type ChildShapes = Readonly<Record<string, ChildShape>>

interface Once<S extends Shape> {
  readonly shape: S
  readonly times: 'once'
}

interface Optional<S extends Shape> {
  readonly shape: S
  readonly times: 'at most once'
}

interface List<S extends Shape> {
  readonly shape: S
  readonly times: 'list'
  readonly min: number
  readonly max: number
  /** The refusal of a list that is too long. */
  readonly refusal: RefusalCode
}

type ChildShape = Once<Shape> | Optional<Shape> | List<Shape>

/** The value that a document of this shape is read as. */
export type ValueOf<S extends Shape> =
  S extends ElementShape<infer Children> ? { readonly [Name in keyof Children]: ChildValue<Children[Name]> } : string

type ChildValue<Child extends ChildShape> =
  Child extends Once<infer S>
    ? ValueOf<S>
    : Child extends Optional<infer S>
      ? ValueOf<S> | null
      : Child extends List<infer S>
        ? readonly ValueOf<S>[]
        : never

export const text: TextShape = { kind: 'text' }

export const element = <const Children extends ChildShapes>(children: Children): ElementShape<Children> => ({
  kind: 'element',
  children,
  childList: Object.entries(children),
})

export const once = <S extends Shape>(shape: S): Once<S> => ({ shape, times: 'once' })

export const optional = <S extends Shape>(shape: S): Optional<S> => ({ shape, times: 'at most once' })

export const list = <S extends Shape>(
  shape: S,
  bounds: { readonly min: number; readonly max: number; readonly refusal?: RefusalCode },
): List<S> => ({ shape, times: 'list', min: bounds.min, max: bounds.max, refusal: bounds.refusal ?? 'MalformedXML' })
