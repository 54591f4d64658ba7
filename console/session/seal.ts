import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { CompactEncrypt, compactDecrypt } from 'jose'

const KEY_BYTES = 32

/** Reads keys of 32 bytes in base64. Throws an Error that names a file without such a key. */
export function readKeys(files: readonly string[]): readonly Buffer[] {
  return files.map((file) => {
    const key = Buffer.from(readFileSync(file, 'utf8').trim(), 'base64')
    if (key.length !== KEY_BYTES) throw new Error(`${file}: must hold ${KEY_BYTES} bytes as base64`)
    return key
  })
}

/** Seals values for cookies. The first key seals, and every key opens. */
export class Seal {
  readonly #keys: readonly Buffer[]

  constructor(keys: readonly Buffer[]) {
    this.#keys = keys.length > 0 ? keys : [randomBytes(KEY_BYTES)]
  }

  /** The first key, for message authentication codes. */
  get key(): Buffer {
    return this.#keys[0] as Buffer
  }

  /** Seals a value as a compact JWE (RFC 7516). `purpose` keeps one kind of cookie from being used as another. */
  seal(purpose: string, value: object): Promise<string> {
    return new CompactEncrypt(Buffer.from(JSON.stringify({ purpose, value })))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(this.key)
  }

  /** Opens a sealed value; undefined if it was changed, or sealed by another key or for another purpose. */
  async open(purpose: string, sealed: string): Promise<unknown> {
    for (const key of this.#keys)
      try {
        const { plaintext } = await compactDecrypt(sealed, key, {
          keyManagementAlgorithms: ['dir'],
          contentEncryptionAlgorithms: ['A256GCM'],
        })
        const opened = JSON.parse(Buffer.from(plaintext).toString()) as { purpose: string; value: unknown }
        return opened.purpose === purpose ? opened.value : undefined
      } catch {
        // Another key may be the right one.
      }
    return undefined
  }
}
