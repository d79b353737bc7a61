import type Protobuf from 'protobufjs'
import { requirePackage } from '../require-package.ts'

export const protobuf = requirePackage('protobufjs') as typeof Protobuf
