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

const LOOPBACK = '^http://(([^/?@\\s:]+\\.)?localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?([/?].*)?$'

interface UrlField {
  readonly name: string
  readonly optional?: true
}

/** `allowed`: CEL of another case in which the URL is accepted, ending with ` || `. */
const rules = (fields: readonly UrlField[], allowed: string, unless: string): CelRule[] =>
  fields.map(({ name, optional }) => {
    const present = optional ? `!has(self.${name}) || ` : ''
    const safe = `self.${name}.startsWith('https://') || ${allowed}self.${name}.lowerAscii().matches(r'${LOOPBACK}')`
    return { rule: present + safe, message: `${name} must be https, unless it is on loopback${unless}` }
  })

/** Builds rules that URLs use https or loopback, without an option to allow plain http. */
export const httpsOrLoopback = (...fields: readonly UrlField[]): CelRule[] => rules(fields, '', '')

/** Builds rules that URLs beside `insecureAllowHTTP` use https or loopback, or plain http if that field allows it. */
export const httpsUnlessAllowed = (...fields: readonly UrlField[]): CelRule[] =>
  rules(fields, 'self.insecureAllowHTTP || ', ' or insecureAllowHTTP is set')
