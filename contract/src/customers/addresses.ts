import { z } from 'zod'
import { named, resource } from '../kit/index.ts'
import { Country, SellerCountry } from '../countries.ts'

const line = () => z.string().nullable()

/** A postal address as stored. */
export const Address = resource('Address', { line1: line(), line2: line(), postal_code: line(), city: line(), state: line(), country: Country })
export type Address = z.output<typeof Address>

const lineInput = () =>
  z
    .string()
    .trim()
    .max(500)
    .regex(/^\P{Cc}*$/u, 'Use one line of text, without control characters.')
    .transform((text) => (text === '' ? null : text))
    .nullish()

/** A postal address as input. Only the country is required, because tax depends on it. */
export const AddressInput = resource('AddressInput', {
  line1: lineInput(),
  line2: lineInput(),
  postal_code: lineInput(),
  city: lineInput(),
  state: lineInput(),
  country: SellerCountry,
})

/** The supported tax ID formats, named by country and kind. */
export const TaxIDFormat = named(
  'TaxIDFormat',
  z.enum([
    'ad_nrt',
    'ae_trn',
    'ar_cuit',
    'au_abn',
    'au_arn',
    'bg_uic',
    'bh_vat',
    'bo_tin',
    'br_cnpj',
    'br_cpf',
    'ca_bn',
    'ca_gst_hst',
    'ca_pst_bc',
    'ca_pst_mb',
    'ca_pst_sk',
    'ca_qst',
    'ch_uid',
    'ch_vat',
    'cl_tin',
    'cn_tin',
    'co_nit',
    'cr_tin',
    'de_stn',
    'do_rcn',
    'ec_ruc',
    'eg_tin',
    'es_cif',
    'eu_oss_vat',
    'eu_vat',
    'gb_vat',
    'ge_vat',
    'hk_br',
    'hr_oib',
    'hu_tin',
    'id_npwp',
    'il_vat',
    'in_gst',
    'is_vat',
    'jp_cn',
    'jp_rn',
    'jp_trn',
    'ke_pin',
    'kr_brn',
    'kz_bin',
    'li_uid',
    'mk_vat',
    'mx_rfc',
    'my_frp',
    'my_itn',
    'my_sst',
    'ng_tin',
    'no_vat',
    'no_voec',
    'nz_gst',
    'om_vat',
    'pe_ruc',
    'ph_tin',
    'ro_tin',
    'rs_pib',
    'ru_inn',
    'ru_kpp',
    'sa_vat',
    'sg_gst',
    'sg_uen',
    'si_tin',
    'sv_nit',
    'th_vat',
    'tr_tin',
    'tw_vat',
    'ua_vat',
    'us_ein',
    'uy_ruc',
    've_rif',
    'vn_tin',
    'za_vat',
    'mu_tan',
  ]),
)
export type TaxIDFormat = z.output<typeof TaxIDFormat>

/** A tax ID and its format. */
export const TaxID = z.tuple([z.string(), TaxIDFormat])
