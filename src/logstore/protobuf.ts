import type Protobuf from 'protobufjs'
import { requirePackage } from '../require-package.ts'

/** Loads protobufjs on the first call: threads that neither read nor write its messages never load it. */
export const loadProtobuf = (): typeof Protobuf => requirePackage('protobufjs') as typeof Protobuf
