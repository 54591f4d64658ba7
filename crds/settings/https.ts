import type { CelRule } from './schema.ts'

/** A URL on a loopback host, where plain http is harmless. */
const LOOPBACK = '^http://(([^/?@\\s:]+\\.)?localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?([/?].*)?$'

const isSafe = (field: string) =>
  `self.${field}.startsWith('https://') || self.${field}.lowerAscii().matches(r'${LOOPBACK}')`

/** Builds rules that URLs use https or loopback, without an option to allow plain http. */
export const httpsOrLoopback = (...fields: readonly { readonly name: string; readonly optional?: true }[]): CelRule[] =>
  fields.map(({ name, optional }) => ({
    rule: optional ? `!has(self.${name}) || ${isSafe(name)}` : isSafe(name),
    message: `${name} must be https, unless it is on loopback`,
  }))

const secure = (field: string) =>
  `self.${field}.startsWith('https://') || self.insecureAllowHTTP || self.${field}.lowerAscii().matches(r'${LOOPBACK}')`

/** Builds rules that URLs beside `insecureAllowHTTP` use https or loopback, or plain http if that field allows it. */
export const httpsUnlessAllowed = (
  ...fields: readonly { readonly name: string; readonly optional?: true }[]
): CelRule[] =>
  fields.map(({ name, optional }) => ({
    rule: optional ? `!has(self.${name}) || ${secure(name)}` : secure(name),
    message: `${name} must be https, unless it is on loopback or insecureAllowHTTP is set`,
  }))
