import { resolve } from 'node:path'
import type { BackendConfig } from '../../../config/gateway.ts'
import { type ReadSecretFile, secretFile } from '../../../config/secret-file.ts'
import { BackendFailure } from './failure.ts'

/** Headers as a flat list of names and values; `version` changes with the values. */
export interface HeaderList {
  readonly version: number
  readonly list: readonly string[]
}

/** The headers that requests to a backend carry beside those of the protocol. */
export interface BackendHeaders {
  /** As they are now. Throws a BackendFailure where they can't be had: a request without its credential is never sent. */
  current(): HeaderList
}

/** The headers that the configuration adds to each request to a backend; those in files follow their files. */
export class ConfiguredHeaders implements BackendHeaders {
  readonly #fixed: readonly string[]
  readonly #files: readonly { readonly name: string; readonly prefix: string; readonly read: ReadSecretFile }[]
  #current: HeaderList

  constructor({ headers = {}, headerFiles = [] }: BackendConfig, directory: string) {
    this.#fixed = Object.entries(headers).flat()
    this.#files = headerFiles.map(({ name, file, prefix = '' }) => ({
      name,
      prefix,
      read: secretFile(resolve(directory, file)),
    }))
    this.#current = { version: 0, list: this.#fixed }
  }

  /**
   * The headers as they are now. Throws a BackendFailure where a file can't be read or holds what no header may: a
   * request without its credential is never sent.
   */
  current(): HeaderList {
    if (this.#files.length === 0) return this.#current
    const list = [...this.#fixed]
    let changed = this.#current.version === 0
    for (const { name, prefix, read } of this.#files) {
      const value = prefix + readValue(name, read)
      changed ||= this.#current.list[list.length + 1] !== value
      list.push(name, value)
    }
    if (changed) this.#current = { version: this.#current.version + 1, list }
    return this.#current
  }
}

function readValue(name: string, read: ReadSecretFile): string {
  let value: string
  try {
    value = read()
  } catch (cause) {
    throw new BackendFailure('backend_unavailable', `header ${name}: ${(cause as Error).message}`, { cause })
  }
  if (value === '' || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
    throw new BackendFailure('backend_unavailable', `header ${name}: the file holds no header value`)
  return value
}
