import type { Address, TaxIDFormat } from '@bursar/contract'
import { stdnum } from 'stdnum'

type Country = Address['country']
/** Name of a validator of the `stdnum` library, or a pattern for formats without public check digits. */
type Rule = string | RegExp

/** Tax number formats of each country, in the order in which they are tried. */
const known: Partial<Record<Country, Partial<Record<TaxIDFormat, Rule>>>> = {
  AD: { ad_nrt: 'nrt' },
  AE: { ae_trn: /^\d{15}$/ },
  AR: { ar_cuit: 'cuit' },
  AT: { eu_vat: 'uid' },
  AU: { au_abn: 'abn', au_arn: /^\d{12}$/ },
  BE: { eu_vat: 'vat' },
  BG: { eu_vat: 'vat', bg_uic: /^\d{9}$/ },
  BH: { bh_vat: /^\d{15}$/ },
  BO: { bo_tin: /^\d{7,12}$/ },
  BR: { br_cnpj: 'cnpj', br_cpf: 'cpf' },
  CA: {
    ca_gst_hst: /^\d{9}RT\d{4}$/,
    ca_qst: /^\d{10}TQ\d{4}$/,
    ca_pst_bc: /^PST\d{8}$/,
    ca_bn: 'bn',
    ca_pst_mb: /^\d{6}$/,
    ca_pst_sk: /^\d{7}$/,
  },
  CH: { ch_vat: 'vat', ch_uid: 'uid' },
  CL: { cl_tin: 'rut' },
  CN: { cn_tin: 'uscc' },
  CO: { co_nit: 'nit' },
  CR: { cr_tin: 'cpj' },
  CY: { eu_vat: 'vat' },
  CZ: { eu_vat: 'dic' },
  DE: { eu_vat: 'vat', de_stn: 'stnr' },
  DK: { eu_vat: 'cvr' },
  DO: { do_rcn: 'rnc' },
  EC: { ec_ruc: 'ruc' },
  EE: { eu_vat: 'kmkr' },
  EG: { eg_tin: 'tn' },
  ES: { eu_vat: 'nif', es_cif: 'cif' },
  FI: { eu_vat: 'alv' },
  FR: { eu_vat: 'tva' },
  GB: { gb_vat: 'vat' },
  GE: { ge_vat: /^\d{9}$/ },
  GR: { eu_vat: 'vat' },
  HK: { hk_br: /^\d{8}$/ },
  HR: { eu_vat: 'oib' },
  HU: { eu_vat: 'anum', hu_tin: /^\d{11}$/ },
  ID: { id_npwp: 'npwp' },
  IE: { eu_vat: 'vat' },
  IL: { il_vat: 'hp' },
  IN: { in_gst: 'gstin' },
  IS: { is_vat: 'vsk' },
  IT: { eu_vat: 'iva' },
  JP: { jp_cn: 'cn', jp_trn: /^T\d{13}$/, jp_rn: /^\d{5}$/ },
  KE: { ke_pin: 'pin' },
  KR: { kr_brn: 'brn' },
  KZ: { kz_bin: /^\d{12}$/ },
  LI: { li_uid: /^CHE\d{9}$/ },
  LT: { eu_vat: 'pvm' },
  LU: { eu_vat: 'tva' },
  LV: { eu_vat: 'pvn' },
  MK: { mk_vat: 'edb' },
  MT: { eu_vat: 'vat' },
  MU: { mu_tan: /^\d{8}$/ },
  MX: { mx_rfc: 'rfc' },
  MY: { my_sst: /^[A-Z]\d{14}$/, my_itn: /^[A-Z]{1,2}\d{9,11}$/, my_frp: /^\d{8}$/ },
  NG: { ng_tin: /^\d{12}$/ },
  NL: { eu_vat: 'btw' },
  NO: { no_vat: 'mva', no_voec: /^\d{7}$/ },
  NZ: { nz_gst: 'ird' },
  OM: { om_vat: /^OM\d{10}$/ },
  PE: { pe_ruc: 'ruc' },
  PH: { ph_tin: /^\d{12}$/ },
  PL: { eu_vat: 'nip' },
  PT: { eu_vat: 'nif' },
  RO: { eu_vat: 'cui', ro_tin: 'cnp' },
  RS: { rs_pib: 'pib' },
  SA: { sa_vat: /^\d{15}$/ },
  SE: { eu_vat: 'vat' },
  SG: { sg_uen: 'uen', sg_gst: /^M\d{8}[A-Z]$/ },
  SI: { eu_vat: 'ddv' },
  SK: { eu_vat: 'dph' },
  SV: { sv_nit: 'nit' },
  TH: { th_vat: 'tin' },
  TR: { tr_tin: 'vkn' },
  TW: { tw_vat: 'ubn' },
  UA: { ua_vat: 'edrpou' },
  US: { us_ein: 'ein' },
  UY: { uy_ruc: 'rut' },
  VE: { ve_rif: 'rif' },
  VN: { vn_tin: 'mst' },
  ZA: { za_vat: 'vat' },
}

/** Formats that are written with their country code. */
const prefixed: readonly TaxIDFormat[] = ['eu_vat', 'gb_vat', 'mk_vat']

/** Recognizes and normalizes a tax number of a country. Returns undefined if the text is not a valid tax number. */
export const readTaxId = (text: string, country: Country): readonly [string, TaxIDFormat] | undefined => {
  for (const [name, rule] of Object.entries(known[country] ?? {})) {
    const format = name as TaxIDFormat
    const compact = rule instanceof RegExp ? compactForm(text, rule) : compactNumber(text, country, rule)
    if (compact === undefined) continue
    const prefix = country === 'GR' ? 'EL' : country
    return [prefixed.includes(format) ? `${prefix}${compact.replace(new RegExp(`^${prefix}`), '')}` : compact, format]
  }
  return undefined
}

const compactForm = (text: string, form: RegExp) => {
  const compact = text.replace(/[\s.\-/]/g, '').toUpperCase()
  return form.test(compact) ? compact : undefined
}

const compactNumber = (text: string, country: Country, name: string) => {
  const number = stdnum[country]?.[name]
  if (!number) throw new Error(`there is no tax number of the type ${name} in ${country}`)
  try {
    const read = number.validate(text)
    return read.isValid ? read.compact.toUpperCase() : undefined
  } catch {
    // Some validators of the library throw on text without digits.
    return undefined
  }
}

/** All recognized pairs of country and format, for tests. */
export const taxFormats = Object.entries(known).flatMap(([country, rules]) =>
  Object.entries(rules).map(([format, rule]) => ({ country: country as Country, format: format as TaxIDFormat, named: typeof rule === 'string' })),
)
