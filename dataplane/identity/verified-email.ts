/** Some providers say it as a text (Sign in with Apple). */
const isTrue = (value: unknown): boolean => value === true || value === 'true'

/**
 * Whether a provider vouches for the e-mail address that stands beside these claims (OpenID Connect Core 1.0 section 5.1). At
 * others people write down what they like.
 */
export const isEmailVerified = (claims: Readonly<Record<string, unknown>>): boolean =>
  Object.hasOwn(claims, 'email_verified') && isTrue(claims['email_verified'])
