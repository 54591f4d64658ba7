import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

// The ASN.1 types that a certificate needs, in the distinguished encoding rules (ITU-T X.690).

function encodeLength(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.of(bytes)
  const hex = bytes.toString(16)
  const digits = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
  return Buffer.concat([Buffer.of(0x80 | digits.length), digits])
}

/** Encodes any type: its tag (one byte) and its contents. */
function tagged(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.of(tag), encodeLength(content.length), content])
}

const sequence = (...parts: readonly Buffer[]): Buffer => tagged(0x30, ...parts)
const set = (part: Buffer): Buffer => tagged(0x31, part)
const octets = (bytes: Buffer): Buffer => tagged(0x04, bytes)
const utf8 = (text: string): Buffer => tagged(0x0c, Buffer.from(text))
const yes: Buffer = tagged(0x01, Buffer.of(0xff))

/** Encodes an integer: a number up to 127, or the positive one that the bytes hold. */
function integer(value: number | Buffer): Buffer {
  const bytes = typeof value === 'number' ? Buffer.of(value) : value
  return tagged(0x02, (bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes)
}

/** @param unused bits at the end of the last byte that don't count */
const bits = (bytes: Buffer, unused = 0): Buffer => tagged(0x03, Buffer.of(unused), bytes)

/** @param dotted an object identifier, as `2.5.29.15` */
function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const base128 = (value: number): number[] => {
    const digits = [value & 0x7f]
    for (let left = Math.floor(value / 128); left > 0; left = Math.floor(left / 128))
      digits.unshift((left & 0x7f) | 0x80)
    return digits
  }
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest].flatMap(base128)))
}

/** Encodes a time in whole seconds, the year in two digits until 2049 (RFC 5280, section 4.1.2.5). */
function time(date: Date): Buffer {
  const digits = `${date
    .toISOString()
    .replace(/\.\d+Z$/, '')
    .replace(/\D/g, '')}Z`
  return date.getUTCFullYear() < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits))
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

const ECDSA_SHA256 = sequence(oid('1.2.840.10045.4.3.2'))
const SERVER_AUTH = oid('1.3.6.1.5.5.7.3.1')

const named = (commonName: string) => sequence(set(sequence(oid('2.5.4.3'), utf8(commonName))))
const spki = (key: KeyObject) => key.export({ type: 'spki', format: 'der' })
const keyId = (key: KeyObject) => createHash('sha256').update(spki(key)).digest().subarray(0, 20)
const extension = (id: string, value: Buffer) => sequence(oid(id), octets(value))
const critical = (id: string, value: Buffer) => sequence(oid(id), yes, octets(value))

/** Makes a random serial number: positive, 16 bytes, none of them superfluous (RFC 5280, section 4.1.2.2). */
function serialNumber(): Buffer {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40
  return integer(bytes)
}

function certificate(
  subject: Subject,
  signer: { readonly name: string; readonly key: KeyObject },
  { from, until }: Validity,
  extensions: readonly Buffer[],
): string {
  const body = sequence(
    tagged(0xa0, integer(2)),
    serialNumber(),
    ECDSA_SHA256,
    named(signer.name),
    sequence(time(from), time(until)),
    named(subject.name),
    spki(subject.key),
    tagged(0xa3, sequence(...extensions)),
  )
  const der = sequence(body, ECDSA_SHA256, bits(sign('sha256', body, signer.key)))
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

/**
 * Issues a certificate for this DNS name from a new authority (X.509 version 3, RFC 5280; ECDSA on P-256), whose key is
 * discarded.
 */
export function issue(host: string, validity: Validity): Issued {
  const authority = newKey()
  const server = newKey()
  const name = `portico admission ${randomBytes(8).toString('hex')}`
  const authorityId = keyId(authority.publicKey)
  const signer = { name, key: authority.privateKey }
  return {
    ca: certificate({ name, key: authority.publicKey }, signer, validity, [
      critical('2.5.29.19', sequence(yes, integer(0))),
      // keyCertSign
      critical('2.5.29.15', bits(Buffer.of(0x04), 2)),
      extension('2.5.29.14', octets(authorityId)),
    ]),
    // A common name has at most 64 characters, and clients ignore it if there is an alternative name.
    certificate: certificate({ name: 'portico admission', key: server.publicKey }, signer, validity, [
      critical('2.5.29.19', sequence()),
      // digitalSignature
      critical('2.5.29.15', bits(Buffer.of(0x80), 7)),
      extension('2.5.29.37', sequence(SERVER_AUTH)),
      extension('2.5.29.17', sequence(tagged(0x82, Buffer.from(host, 'latin1')))),
      extension('2.5.29.35', sequence(tagged(0x80, authorityId))),
    ]),
    key: server.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  }
}
