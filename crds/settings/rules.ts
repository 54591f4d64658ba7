import type { CelRule } from './schema.ts'

/** Builds the rules of a union: a block of `blocks` is set exactly if `field` has its value. */
export const blockFor = (field: string, blocks: Readonly<Record<string, string>>): CelRule[] =>
  Object.entries(blocks).map(([value, block]) => ({
    rule: `self.${field} == '${value}' ? has(self.${block}) : !has(self.${block})`,
    message: `${block} must be set when ${field} is ${value}, and only then`,
  }))

/** A CEL rule: at most one of two fields is set. */
export const notBoth = (one: string, other: string): CelRule => ({
  rule: `!(has(self.${one}) && has(self.${other}))`,
  message: `${one} and ${other} exclude each other: set one of them`,
})

/** Returns a CEL expression: the number of fields that are set. */
export const countSet = (fields: readonly string[]): string =>
  fields.map((field) => `(has(self.${field}) ? 1 : 0)`).join(' + ')

/** A CEL rule: exactly one of several fields is set. */
export const exactlyOne = (...fields: readonly string[]): CelRule => ({
  rule: fields.length === 2 ? fields.map((field) => `has(self.${field})`).join(' != ') : `${countSet(fields)} == 1`,
  message: `set exactly one of ${fields.slice(0, -1).join(', ')} and ${fields.at(-1)}`,
})

/** A CEL rule for a client: its id can't be taken for that of one with a metadata document. */
export const plainClientId: CelRule = {
  rule: "!self.clientId.contains('://')",
  message: 'clientId must not be a URL: those are the ids of clients with a metadata document',
}

/** A CEL rule: a duration is within bounds. */
export const durationWithin = (from: string, to: string): CelRule => ({
  rule: `duration(self) >= duration('${from}') && duration(self) <= duration('${to}')`,
  message: `must be from ${from} to ${to}`,
})

/** A CEL rule: a duration is positive, and at most so long. */
export const durationUpTo = (most: string): CelRule => ({
  rule: `duration(self) > duration('0s') && duration(self) <= duration('${most}')`,
  message: `must be more than 0s, and at most ${most}`,
})

const LOOPBACK = '^http://(([^/?@\\s:]+\\.)?localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?([/?].*)?$'

/**
 * `fields`: their names, with a `?` at the end if they are optional. `allowed`: CEL of another case in which the URL is
 * accepted, ending with ` || `.
 */
const rules = (fields: readonly string[], allowed: string, unless: string): CelRule[] =>
  fields.map((field) => {
    const name = field.replace('?', '')
    const present = field === name ? '' : `!has(self.${name}) || `
    const safe = `self.${name}.startsWith('https://') || ${allowed}self.${name}.lowerAscii().matches(r'${LOOPBACK}')`
    return { rule: present + safe, message: `${name} must be https, unless it is on loopback${unless}` }
  })

/** Builds rules that URLs use https or loopback, without an option to allow plain http. */
export const httpsOrLoopback = (...fields: readonly string[]): CelRule[] => rules(fields, '', '')

/** Builds rules that URLs beside `insecureAllowHTTP` use https or loopback, or plain http if that field allows it. */
export const httpsUnlessAllowed = (...fields: readonly string[]): CelRule[] =>
  rules(fields, 'self.insecureAllowHTTP || ', ' or insecureAllowHTTP is set')
