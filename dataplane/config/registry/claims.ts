import Type from 'typebox'

/** Claims of a source, a registry or an entry: pairs of strings, as in the tokens that they are compared with. */
export const claims = (description: string, options: { readonly minProperties?: number } = {}) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    description,
    maxProperties: 32,
    propertyNames: { minLength: 1, maxLength: 253 },
    additionalProperties: { type: 'string', maxLength: 1024 },
    ...options,
  })
