import { isObject } from '../../../crds/settings/json.ts'
import { parseJson } from './parse.ts'

const INTERNAL_ERROR = -32603

/** Returns an error (JSON text) in the form of JSON-RPC 2.0, with a number and a text. Numbers keep their spelling. */
export function mendedError(text: string): string {
  const error = parsed(text)
  if (!isObject(error)) return JSON.stringify({ code: INTERNAL_ERROR, message: textIn(error) })
  const { code, message } = error
  if (Number.isInteger(code) && typeof message === 'string') return text
  const number = typeof code === 'string' && INTEGER.test(code) ? Number(code) : code
  return JSON.stringify({
    ...error,
    code: Number.isInteger(number) ? number : INTERNAL_ERROR,
    message: textIn(message),
  })
}

const INTEGER = /^-?\d{1,6}$/

const textIn = (value: unknown): string => (typeof value === 'string' ? value : 'The backend gives no reason.')

function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}
