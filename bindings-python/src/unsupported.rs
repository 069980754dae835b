//! Generates methods that only raise a TypeError, which says what to use instead.

/// Generates a constructor that only raises. `$makers` is what makes such objects, with a verb.
macro_rules! no_constructor {
    ($class:ident, $makers:expr) => {
        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (*args: "typing.Never", **kwargs: "typing.Never"))]
            fn new(
                args: &Bound<'_, pyo3::types::PyTuple>,
                kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
            ) -> PyResult<Self> {
                let _ = (args, kwargs);
                Err(pyo3::exceptions::PyTypeError::new_err(concat!(
                    "redlock.",
                    stringify!($class),
                    " has no constructor: ",
                    $makers
                )))
            }
        }
    };
}

/// Generates both methods of a kind of `with` that a class does not support. `$error` is a function that returns the
/// error for an object.
macro_rules! unsupported_with {
    ($class:ident, $enter:ident, $exit:ident, $error:expr) => {
        #[pymethods]
        impl $class {
            #[pyo3(signature = () -> "typing.NoReturn")]
            fn $enter(&self) -> PyResult<Py<PyAny>> {
                let error: fn(&Self) -> PyErr = $error;
                Err(error(self))
            }

            #[pyo3(signature = (*error: "object") -> "typing.NoReturn")]
            fn $exit(&self, error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<Py<PyAny>> {
                let _ = error;
                self.$enter()
            }
        }
    };
}

pub(crate) use {no_constructor, unsupported_with};
