import semver from 'semver'

/**
 * Returns a key that sorts byte by byte as the version does, so that the database needs no semver. It ends in the
 * version itself, and so is unique. Semantic versions sort by precedence (semver.org, section 11); a leading `v` and
 * leading zeros are allowed. Other versions come before them, in natural order (`9.1` before `10`).
 */
export function precedence(version: string): string {
  const parsed = semver.parse(version, { loose: true })
  return parsed === null
    ? `0${version.replace(/\d+/g, numberKey)}${END}${version}`
    : `1${semverKey(parsed)}${END}${version}`
}

/** The separator before the version. It sorts below everything else, so that the shorter list comes first (11.4.4). */
const END = ' '
/** The prefix of each prerelease identifier. It sorts below every character of an identifier. */
const IDENTIFIER = '!'
/** The mark of a release. It sorts above identifiers: a release comes after its prereleases (section 11.3). */
const RELEASE = '~'

function semverKey({ major, minor, patch, prerelease }: semver.SemVer): string {
  const release = numberKey(String(major)) + numberKey(String(minor)) + numberKey(String(patch))
  if (prerelease.length === 0) return release + RELEASE
  return release + prerelease.map((part) => IDENTIFIER + identifierKey(String(part))).join('')
}

/** Encodes an identifier; numeric ones come before alphanumeric ones (section 11.4.3). */
function identifierKey(part: string): string {
  return /^\d+$/.test(part) ? `0${numberKey(part)}` : `1${part}`
}

/** Encodes digits: their count, then the digits without leading zeros. More digits mean a greater number. */
function numberKey(run: string): string {
  const digits = run.replace(/^0+(?=\d)/, '')
  return String(digits.length).padStart(3, '0') + digits
}
