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
import protobuf from 'protobufjs'
import { messageType } from './otlp-types.ts'

type Write = (value: unknown) => string

const HEX_FIELDS = new Set(['traceId', 'spanId', 'parentSpanId'])
const LISTS_ALWAYS_WRITTEN = new Set(['ArrayValue', 'KeyValueList'])

const writers = new Map<protobuf.Type, Write>()

/**
 * @param typeName  full name of the message type
 * @param bytes     one message, valid for protobufjs
 */
export function protobufToJson(typeName: string, bytes: Uint8Array): string {
  const type = messageType(typeName)
  return messageToJson(type, type.decode(bytes))
}

/** A message that protobufjs decoded. */
export function messageToJson(type: protobuf.Type, message: protobuf.Message): string {
  let write = writers.get(type)
  if (write === undefined) {
    write = messageWriter(type)
    writers.set(type, write)
  }
  return write(message)
}

function messageWriter(type: protobuf.Type): Write {
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
    const members: string[] = []
    for (const { name, key, write, optionalList } of fields) {
      // protobufjs has what was on the wire as own properties, defaults on the prototype, and a list for every repeated field.
      if (!Object.hasOwn(values, name)) continue
      if (optionalList && (values[name] as unknown[]).length === 0) continue
      members.push(key + write(values[name]))
    }
    return `{${members.join(',')}}`
  }
}

const listWriter =
  (write: Write): Write =>
  (values) =>
    `[${(values as unknown[]).map(write).join(',')}]` // a repeated field is decoded as an array

function valueWriter(field: protobuf.Field): Write {
  field.resolve()
  const type = field.resolvedType
  if (type instanceof protobuf.Type) return (value) => messageToJson(type, value as protobuf.Message)
  if (type instanceof protobuf.Enum) return String
  switch (field.type) {
    case 'string':
      return JSON.stringify
    case 'int64':
    case 'fixed64':
      return (value) => `"${String(value)}"` // a Long
    case 'double':
      return (value) => doubleToJson(value as number)
    case 'bytes':
      return HEX_FIELDS.has(field.name) ? (value) => bytesToJson(value, 'hex') : (value) => bytesToJson(value, 'base64')
    default: // bool, uint32, fixed32
      return String
  }
}

function doubleToJson(value: number): string {
  if (!Number.isFinite(value)) return `"${value}"`
  return Object.is(value, -0) ? '-0' : String(value)
}

function bytesToJson(value: unknown, encoding: 'hex' | 'base64'): string {
  const bytes = value as Uint8Array // what protobufjs decodes a bytes field to
  return `"${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString(encoding)}"`
}
