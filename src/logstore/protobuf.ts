import type Protobuf from 'protobufjs'
import { requirePackage } from '../require-package.ts'

/** Threads that read and write no message of its types never load it. */
export const loadProtobuf = (): typeof Protobuf => requirePackage('protobufjs') as typeof Protobuf
