//! Quantity library, for values such as `500m` and `2Gi`.

use std::cmp::Ordering;

use coracle_meta::quantity::{Format, ParseQuantityError, Quantity, Scale};

use crate::EvalError;
use crate::value::{Extension, Value};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "quantity",
        overloads: &[("string_to_quantity", "(string) -> kubernetes.Quantity")],
        call: quantity,
    },
    Function {
        name: "isQuantity",
        overloads: &[("is_quantity_string", "(string) -> bool")],
        call: is_quantity,
    },
    Function { name: "sign", overloads: &[("quantity_sign", "(kubernetes.Quantity) -> int")], call: sign },
    Function {
        name: "isGreaterThan",
        overloads: &[("quantity_is_greater_than", "kubernetes.Quantity.(kubernetes.Quantity) -> bool")],
        call: is_greater,
    },
    Function {
        name: "isLessThan",
        overloads: &[("quantity_is_less_than", "kubernetes.Quantity.(kubernetes.Quantity) -> bool")],
        call: is_less,
    },
    Function {
        name: "compareTo",
        overloads: &[("quantity_compare_to", "kubernetes.Quantity.(kubernetes.Quantity) -> int")],
        call: compare_to,
    },
    Function {
        name: "asApproximateFloat",
        overloads: &[("quantity_get_float", "kubernetes.Quantity.() -> double")],
        call: as_float,
    },
    Function {
        name: "asInteger",
        overloads: &[("quantity_get_int", "kubernetes.Quantity.() -> int")],
        call: as_integer,
    },
    Function {
        name: "isInteger",
        overloads: &[("quantity_is_integer", "kubernetes.Quantity.() -> bool")],
        call: is_integer,
    },
    Function {
        name: "add",
        overloads: &[
            ("quantity_add", "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity"),
            ("quantity_add_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity"),
        ],
        call: add,
    },
    Function {
        name: "sub",
        overloads: &[
            ("quantity_sub", "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity"),
            ("quantity_sub_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity"),
        ],
        call: sub,
    },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

/// A quantity, with additional state that Kubernetes' type has.
#[derive(Clone, Debug)]
pub(crate) struct Amount {
    pub(crate) quantity: Quantity,
    /// True if the number is stored without decimal places and so counts as an integer: true for
    /// `1`, false for `1000m`.
    whole: bool,
    /// True for results of `add` and `sub`. In Kubernetes, comparing these with `==` fails.
    pub(crate) computed: bool,
}

/// Numbers with more digits are stored with arbitrary precision, and never count as an integer.
const MAX_DIGITS: usize = 18;

impl Amount {
    fn parse(text: &str) -> Result<Self, EvalError> {
        let quantity: Quantity =
            text.parse().map_err(|error: ParseQuantityError| EvalError::failed(error.to_string()))?;
        Ok(Self { whole: is_whole(text, &quantity), quantity, computed: false })
    }

    fn integer(&self) -> Option<i64> {
        self.quantity.checked_scaled_value(Scale::ONE).filter(|_| self.whole)
    }

    fn float(&self) -> f64 {
        let decimal = self.quantity.clone().with_format(Format::DecimalExponent).to_string();
        decimal.parse().unwrap_or(f64::NAN)
    }
}

fn is_whole(text: &str, quantity: &Quantity) -> bool {
    let number = text.trim_start_matches(['+', '-']);
    let end = number.find(|found: char| found != '.' && !found.is_ascii_digit()).unwrap_or(number.len());
    let (number, suffix) = number.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.trim_start_matches('0').len() + fraction.len() > MAX_DIGITS {
        return false;
    }
    let decimals = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let exponent = match suffix {
        "" => 0,
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        binary if binary.ends_with('i') => 0,
        power => power[1..].parse().unwrap_or_default(),
    };
    exponent >= decimals && quantity.checked_scaled_value(Scale::ONE).is_some()
}

fn amount<'a>(value: &'a Value<'_>) -> Option<&'a Amount> {
    match value {
        Value::Extension(extension) => match &*extension.0 {
            Extension::Quantity(amount) => Some(amount),
            _ => None,
        },
        _ => None,
    }
}

fn quantity<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::extension(Extension::Quantity(Amount::parse(text.as_str())?))),
        _ => mismatch(),
    }
}

fn is_quantity<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(text.as_str().parse::<Quantity>().is_ok())),
        _ => mismatch(),
    }
}

fn of_one<'d>(args: &[Value<'d>], read: impl Fn(&Amount) -> Flow<'d>) -> Flow<'d> {
    match args {
        [value] => amount(value).map_or_else(mismatch, read),
        _ => mismatch(),
    }
}

fn sign<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_one(args, |amount| Ok(Value::Int(amount.quantity.sign().into())))
}

fn as_float<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_one(args, |amount| Ok(Value::Double(amount.float())))
}

fn as_integer<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let error = || EvalError::failed("cannot convert value to integer");
    of_one(args, |amount| amount.integer().map(Value::Int).ok_or_else(error))
}

fn is_integer<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_one(args, |amount| Ok(Value::Bool(amount.integer().is_some())))
}

fn comparison<'d>(args: &[Value<'d>], result: fn(Ordering) -> Value<'d>) -> Flow<'d> {
    match args {
        [one, other] => match (amount(one), amount(other)) {
            (Some(one), Some(other)) => Ok(result(one.quantity.cmp(&other.quantity))),
            _ => mismatch(),
        },
        _ => mismatch(),
    }
}

fn is_greater<'d>(args: &[Value<'d>]) -> Flow<'d> {
    comparison(args, |order| Value::Bool(order.is_gt()))
}

fn is_less<'d>(args: &[Value<'d>]) -> Flow<'d> {
    comparison(args, |order| Value::Bool(order.is_lt()))
}

fn compare_to<'d>(args: &[Value<'d>]) -> Flow<'d> {
    comparison(args, |order| Value::Int(order as i64))
}

fn arithmetic<'d>(args: &[Value<'d>], combine: fn(&Quantity, &Quantity) -> Option<Quantity>) -> Flow<'d> {
    let [one, other] = args else { return mismatch() };
    let number = match other {
        Value::Int(number) => Some(Amount {
            quantity: Quantity::new(*number, Format::DecimalExponent),
            whole: true,
            computed: false,
        }),
        _ => None,
    };
    let (Some(one), Some(other)) = (amount(one), number.as_ref().or_else(|| amount(other))) else {
        return mismatch();
    };
    let quantity = combine(&one.quantity, &other.quantity);
    let quantity = quantity.ok_or_else(|| EvalError::failed("quantity overflow"))?;
    let amount = Amount { quantity, whole: one.whole && other.whole, computed: true };
    Ok(Value::extension(Extension::Quantity(amount)))
}

fn add<'d>(args: &[Value<'d>]) -> Flow<'d> {
    arithmetic(args, Quantity::checked_add)
}

fn sub<'d>(args: &[Value<'d>]) -> Flow<'d> {
    arithmetic(args, Quantity::checked_sub)
}
