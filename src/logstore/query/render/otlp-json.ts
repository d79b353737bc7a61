/**
 * OTLP protobuf messages as OTLP JSON text: the proto3 JSON mapping with the exceptions that OTLP makes.
 *
 *   names     lowerCamelCase
 *   64-bit    decimal strings, intValue and fixed64 times included; exact, they never pass through a double
 *   ids       traceId, spanId and parentSpanId in lower-case hexadecimal; other bytes in base64
 *   enums     integers
 *   doubles   numbers, "NaN", "Infinity" and "-Infinity"; -0 keeps its sign
 *   absent    a field that is not set is left out. A member of a oneof that is set is written whatever its value, and a list
 *             or map value without elements says so: {"stringValue":""}, {"arrayValue":{"values":[]}}
 */
import type Long from 'long'
import type { Field, Message, Type } from 'protobufjs'
import { messageType, protobuf } from './otlp-types.ts'

type Write = (value: unknown) => string

const HEX_FIELDS = new Set(['traceId', 'spanId', 'parentSpanId'])
const LISTS_ALWAYS_WRITTEN = new Set(['ArrayValue', 'KeyValueList'])

const writers = new Map<Type, Write>()

/**
 * @param typeName  full name of the message type
 * @param bytes     one message, valid for protobufjs
 */
export function protobufToJson(typeName: string, bytes: Uint8Array): string {
  const type = messageType(typeName)
  return messageToJson(type, type.decode(bytes))
}

/** A message that protobufjs decoded. */
export function messageToJson(type: Type, message: Message): string {
  return writerOf(type)(message)
}

function writerOf(type: Type): Write {
  let write = writers.get(type)
  if (write === undefined) {
    write = messageWriter(type)
    writers.set(type, write)
  }
  return write
}

/** Texts are put together by concatenation, which here takes half the time of lists that are joined. */
function messageWriter(type: Type): Write {
  const alwaysLists = LISTS_ALWAYS_WRITTEN.has(type.name)
  const fields = type.fieldsArray
    .toSorted((a, b) => a.id - b.id)
    .map((field) => ({
      name: field.name,
      key: `${JSON.stringify(field.name)}:`,
      write: field.repeated ? listWriter(valueWriter(field)) : valueWriter(field),
      optionalList: field.repeated && !alwaysLists,
    }))
  return (message) => {
    const values = message as Record<string, unknown>
    let members = ''
    for (const { name, key, write, optionalList } of fields) {
      // protobufjs has what was on the wire as own properties, defaults on the prototype, and a list for every repeated field.
      if (!Object.hasOwn(values, name)) continue
      const value = values[name]
      if (optionalList && (value as unknown[]).length === 0) continue
      if (members !== '') members += ','
      members += key + write(value)
    }
    return `{${members}}`
  }
}

const listWriter =
  (write: Write): Write =>
  (values) => {
    let elements = ''
    // A repeated field is decoded as an array.
    for (const value of values as unknown[]) elements += elements === '' ? write(value) : `,${write(value)}`
    return `[${elements}]`
  }

function valueWriter(field: Field): Write {
  field.resolve()
  const type = field.resolvedType
  if (type instanceof protobuf.Type) return nestedWriter(type)
  if (type instanceof protobuf.Enum) return String
  switch (field.type) {
    case 'string':
      return JSON.stringify
    case 'int64':
      return (value) => `"${BigInt.asIntN(64, longToBigInt(value))}"`
    case 'fixed64':
      return (value) => `"${longToBigInt(value)}"`
    case 'double':
      return (value) => doubleToJson(value as number)
    case 'bytes':
      return HEX_FIELDS.has(field.name) ? (value) => bytesToJson(value, 'hex') : (value) => bytesToJson(value, 'base64')
    default: // bool, uint32, fixed32
      return String
  }
}

/** The types are recursive: the writer of a nested one is looked for when there is a value of it. */
function nestedWriter(type: Type): Write {
  let writer: Write | undefined
  return (value) => (writer ??= writerOf(type))(value)
}

/** A Long as unsigned; its own text takes eight times as long. */
function longToBigInt(value: unknown): bigint {
  const { high, low } = value as Long // what protobufjs decodes 64-bit fields to
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
}

function doubleToJson(value: number): string {
  if (!Number.isFinite(value)) return `"${value}"`
  return Object.is(value, -0) ? '-0' : String(value)
}

function bytesToJson(value: unknown, encoding: 'hex' | 'base64'): string {
  const bytes = value as Uint8Array // what protobufjs decodes a bytes field to
  return `"${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString(encoding)}"`
}
