/**
 * Certificates that a test makes for itself, so that none is in the repository and none expires: keys on P-256, X.509 version 3 in DER.
 *
 * @see RFC 5280
 */
import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { temporaryDirectory } from './directories.ts'

const SEQUENCE = 0x30
const SET = 0x31
const OID = 0x06
const UTF8 = 0x0c
const BIT_STRING = 0x03
const OCTETS = 0x04
const TIME = 0x18
const DAY_MS = 86_400_000

const OIDS = {
  C: '550406',
  O: '55040a',
  OU: '55040b',
  CN: '550403',
  ecdsaWithSha256: '2a8648ce3d040302',
  basicConstraints: '551d13',
  subjectAltName: '551d11',
}

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const length = content.byteLength
  const long = length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...(length < 128 ? [length] : long)]), content])
}

const oid = (name: keyof typeof OIDS): Buffer => der(OID, Buffer.from(OIDS[name], 'hex'))
const time = (ms: number): Buffer => der(TIME, Buffer.from(new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, '')))
const ALGORITHM = der(SEQUENCE, oid('ecdsaWithSha256'))

/** The parts of a name, from the widest to the narrowest as they stand in a certificate. */
export type Name = readonly (readonly [part: 'C' | 'O' | 'OU' | 'CN', value: string])[]

const nameOf = (parts: Name): Buffer =>
  der(SEQUENCE, ...parts.map(([part, value]) => der(SET, der(SEQUENCE, oid(part), der(UTF8, Buffer.from(value))))))

const extension = (name: keyof typeof OIDS, isCritical: boolean, value: Buffer): Buffer =>
  der(SEQUENCE, oid(name), ...(isCritical ? [Buffer.from([1, 1, 0xff])] : []), der(OCTETS, value))

/** Localhost by name and by address. */
const LOCALHOST = der(SEQUENCE, der(0x82, Buffer.from('localhost')), der(0x87, Buffer.from([127, 0, 0, 1])))

function certificate(
  subject: Buffer,
  publicKey: KeyObject,
  issuer: Buffer,
  issuerKey: KeyObject,
  isCa: boolean,
): string {
  const constraints = der(SEQUENCE, ...(isCa ? [Buffer.from([1, 1, 0xff])] : []))
  const extensions = [
    extension('basicConstraints', true, constraints),
    ...(isCa ? [] : [extension('subjectAltName', false, LOCALHOST)]),
  ]
  const body = der(
    SEQUENCE,
    der(0xa0, Buffer.from([2, 1, 2])), // version 3
    der(2, Buffer.from([0x40]), randomBytes(8)),
    ALGORITHM,
    issuer,
    der(SEQUENCE, time(Date.now() - DAY_MS), time(Date.now() + DAY_MS)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(SEQUENCE, ...extensions)),
  )
  const signed = der(SEQUENCE, body, ALGORITHM, der(BIT_STRING, Buffer.from([0]), sign('sha256', body, issuerKey)))
  const lines = signed.toString('base64').match(/.{1,64}/g)!
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}

/** A certificate and its key, in PEM. */
export interface Certified {
  readonly cert: string
  readonly key: string
}

export class Authority {
  readonly cert: string
  readonly #name: Buffer
  readonly #key: KeyObject

  constructor(name: string) {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    this.#name = nameOf([['CN', name]])
    this.#key = privateKey
    this.cert = certificate(this.#name, publicKey, this.#name, privateKey, true)
  }

  /** A certificate for a server on localhost, or for a client with this name. */
  certify(subject: Name): Certified {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    return { key, cert: certificate(nameOf(subject), publicKey, this.#name, this.#key, false) }
  }
}

/** Files of a server's certificate, its key and the authority of its clients, in a directory of their own. */
export class TlsFilesOnDisk {
  readonly directory = temporaryDirectory()
  readonly cert = `${this.directory}/server.pem`
  readonly key = `${this.directory}/server.key`
  readonly clientCa = `${this.directory}/clients.pem`

  /** TLS settings for a listener of the process under test. */
  get settings(): { readonly certFile: string; readonly keyFile: string; readonly clientCaFile: string } {
    return { certFile: this.cert, keyFile: this.key, clientCaFile: this.clientCa }
  }

  write({ cert, key }: Certified, clients: Authority | null = null): void {
    createPrivateKey(key) // fails here if the test's key is broken, which would look like a mistake of the server
    writeFileSync(this.cert, cert)
    writeFileSync(this.key, key)
    if (clients !== null) writeFileSync(this.clientCa, clients.cert)
  }
}
