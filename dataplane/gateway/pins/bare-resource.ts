import { hash } from 'node:crypto'
import { isObject } from '../../../crds/settings/json.ts'

const LONGEST_URI = 2048
const PLAIN_URI = /^[\x21-\x7e]+$/
const LONGEST_NAME = 64
const OTHER = /[^A-Za-z0-9_.-]/g
const DIGEST = 8
const MEDIA_TYPE = /^[A-Za-z0-9!#$&^_.+-]{1,64}\/[A-Za-z0-9!#$&^_.+-]{1,64}$/

/**
 * Returns a listed resource with only its URI, safe name and media type, without text that a model reads; undefined for
 * an unusual URI.
 */
export function bareResource(text: string): string | undefined {
  const value: unknown = JSON.parse(text)
  if (!isObject(value)) return undefined
  const { uri, name, mimeType } = value
  if (typeof uri !== 'string' || uri.length > LONGEST_URI || !PLAIN_URI.test(uri)) return undefined
  const isType = typeof mimeType === 'string' && MEDIA_TYPE.test(mimeType)
  return JSON.stringify({ uri, name: safeName(name), ...(isType ? { mimeType } : {}) })
}

function safeName(name: unknown): string {
  const given = typeof name === 'string' ? name : ''
  const plain = given.replace(OTHER, '_')
  if (plain === given && plain !== '' && plain.length <= LONGEST_NAME) return plain
  return `${plain.slice(0, LONGEST_NAME - DIGEST - 1)}_${hash('sha256', given).slice(0, DIGEST)}`
}
