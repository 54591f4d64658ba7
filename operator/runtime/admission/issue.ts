import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

// The ASN.1 types that a certificate needs, in the distinguished encoding rules (ITU-T X.690).

function encodeLength(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.of(bytes)
  const hex = bytes.toString(16)
  const digits = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
  return Buffer.concat([Buffer.of(0x80 | digits.length), digits])
}

/** Encodes any type: its tag (one byte) and its contents. */
function encodeTagged(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.of(tag), encodeLength(content.length), content])
}

const encodeSequence = (...parts: readonly Buffer[]): Buffer => encodeTagged(0x30, ...parts)
const set = (part: Buffer): Buffer => encodeTagged(0x31, part)
const encodeOctets = (bytes: Buffer): Buffer => encodeTagged(0x04, bytes)
const encodeUtf8 = (text: string): Buffer => encodeTagged(0x0c, Buffer.from(text))
const yes: Buffer = encodeTagged(0x01, Buffer.of(0xff))

/** Encodes an integer: a number up to 127, or the positive one that the bytes hold. */
function encodeInteger(value: number | Buffer): Buffer {
  const bytes = typeof value === 'number' ? Buffer.of(value) : value
  return encodeTagged(0x02, (bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes)
}

/** @param unused bits at the end of the last byte that don't count */
const encodeBits = (bytes: Buffer, unused = 0): Buffer => encodeTagged(0x03, Buffer.of(unused), bytes)

/** @param dotted an object identifier, as `2.5.29.15` */
function encodeOid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const base128 = (value: number): number[] => {
    const digits = [value & 0x7f]
    for (let left = Math.floor(value / 128); left > 0; left = Math.floor(left / 128))
      digits.unshift((left & 0x7f) | 0x80)
    return digits
  }
  return encodeTagged(0x06, Buffer.from([first * 40 + second, ...rest].flatMap(base128)))
}

/** Encodes a time in whole seconds, the year in two digits until 2049 (RFC 5280, section 4.1.2.5). */
function encodeTime(date: Date): Buffer {
  const digits = `${date
    .toISOString()
    .replace(/\.\d+Z$/, '')
    .replace(/\D/g, '')}Z`
  return date.getUTCFullYear() < 2050
    ? encodeTagged(0x17, Buffer.from(digits.slice(2)))
    : encodeTagged(0x18, Buffer.from(digits))
}

/** A server's certificate and the authority that signed it and nothing else, all in PEM. */
export interface Issued {
  readonly ca: string
  readonly certificate: string
  readonly key: string
}

interface Validity {
  readonly from: Date
  readonly until: Date
}

interface Subject {
  readonly name: string
  readonly key: KeyObject
}

const ECDSA_SHA256 = encodeSequence(encodeOid('1.2.840.10045.4.3.2'))
const SERVER_AUTH = encodeOid('1.3.6.1.5.5.7.3.1')

const encodeName = (commonName: string) =>
  encodeSequence(set(encodeSequence(encodeOid('2.5.4.3'), encodeUtf8(commonName))))
const exportSpki = (key: KeyObject) => key.export({ type: 'spki', format: 'der' })
const computeKeyId = (key: KeyObject) => createHash('sha256').update(exportSpki(key)).digest().subarray(0, 20)
const encodeExtension = (id: string, value: Buffer) => encodeSequence(encodeOid(id), encodeOctets(value))
const encodeCritical = (id: string, value: Buffer) => encodeSequence(encodeOid(id), yes, encodeOctets(value))

/** Makes a random serial number: positive, 16 bytes, none of them superfluous (RFC 5280, section 4.1.2.2). */
function createSerialNumber(): Buffer {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40
  return encodeInteger(bytes)
}

function signCertificate(
  subject: Subject,
  signer: { readonly name: string; readonly key: KeyObject },
  { from, until }: Validity,
  extensions: readonly Buffer[],
): string {
  const body = encodeSequence(
    encodeTagged(0xa0, encodeInteger(2)),
    createSerialNumber(),
    ECDSA_SHA256,
    encodeName(signer.name),
    encodeSequence(encodeTime(from), encodeTime(until)),
    encodeName(subject.name),
    exportSpki(subject.key),
    encodeTagged(0xa3, encodeSequence(...extensions)),
  )
  const der = encodeSequence(body, ECDSA_SHA256, encodeBits(sign('sha256', body, signer.key)))
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

const createKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

/**
 * Issues a certificate for this DNS name from a new authority (X.509 version 3, RFC 5280; ECDSA on P-256), whose key is
 * discarded.
 */
export function issue(host: string, validity: Validity): Issued {
  const authority = createKey()
  const server = createKey()
  const name = `portico admission ${randomBytes(8).toString('hex')}`
  const authorityId = computeKeyId(authority.publicKey)
  const signer = { name, key: authority.privateKey }
  return {
    ca: signCertificate({ name, key: authority.publicKey }, signer, validity, [
      encodeCritical('2.5.29.19', encodeSequence(yes, encodeInteger(0))),
      // keyCertSign
      encodeCritical('2.5.29.15', encodeBits(Buffer.of(0x04), 2)),
      encodeExtension('2.5.29.14', encodeOctets(authorityId)),
    ]),
    // A common name has at most 64 characters, and clients ignore it if there is an alternative name.
    certificate: signCertificate({ name: 'portico admission', key: server.publicKey }, signer, validity, [
      encodeCritical('2.5.29.19', encodeSequence()),
      // digitalSignature
      encodeCritical('2.5.29.15', encodeBits(Buffer.of(0x80), 7)),
      encodeExtension('2.5.29.37', encodeSequence(SERVER_AUTH)),
      encodeExtension('2.5.29.17', encodeSequence(encodeTagged(0x82, Buffer.from(host, 'latin1')))),
      encodeExtension('2.5.29.35', encodeSequence(encodeTagged(0x80, authorityId))),
    ]),
    key: server.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  }
}
