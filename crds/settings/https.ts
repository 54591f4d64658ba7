import type { CelRule } from './schema.ts'

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
